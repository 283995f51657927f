from tests.core.problems import X
def test_x():
    assert X == 1
