from fedsched.learning.updates import add_up


def test_chunks_of_different_sizes_count_by_their_images():
    result = add_up([(200, 100, 300.0), (160, 80, 60.0)])
    assert result.accuracy == 0.5
    assert result.loss == 1.0


def test_the_sum_of_losses_is_formed_in_the_order_given():
    # One after the other, the first is lost in the second; any other order would keep it.
    assert add_up([(1, 0, 1.0), (1, 0, 1e16), (1, 0, -1e16)]).loss == 0.0
    assert add_up([(1, 0, 1e16), (1, 0, -1e16), (1, 0, 1.0)]).loss == 1.0 / 3
