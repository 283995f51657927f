"""Who is who among nodes that come and go."""

import numpy as np

from fedsched.flower.fleet import Fleet
from fedsched.flower.protocol import Report


def told(node, device, t=0, gain=1.0):
    return node, Report(device=device, round=t, gain=gain)


def hear(reports, fleet=None, online=()):
    reports = list(reports)
    return (fleet or Fleet()).hear(reports, {*online, *(node for node, _ in reports)})


def test_devices_are_numbered_by_name_whoever_answers_first():
    reports = [told(3, "10"), told(2, "b"), told(9, "9"), told(1, "a")]
    for order in (reports, reports[::-1]):
        fleet = hear(order)
        assert fleet.name == ("9", "10", "a", "b")
        assert fleet.node == (9, 3, 1, 2)


def test_numbers_stay_when_others_come():
    fleet = hear([told(4, "2", gain=0.5)], hear([told(3, "10")]))
    assert fleet.name == ("10", "2")
    assert fleet.gain.tolist() == [1.0, 0.5]


def test_a_node_keeps_the_first_name_it_gave(caplog):
    before = hear([told(3, "0"), told(4, "1")])
    after = hear([told(3, "2", gain=9.0), told(4, "1", gain=5.0)], before)
    assert (after.name, after.node) == (("0", "1"), (3, 4))
    assert after.gain.tolist() == [1.0, 5.0]
    assert "node 3 is not heard as device 2: it is device 0" in caplog.text


def test_nodes_that_rename_themselves_every_round_do_not_become_many():
    fleet = Fleet()
    for t in range(20):
        fleet = hear([told(node, f"{node}-{t}", t) for node in range(1, 51)], fleet)
    assert len(fleet) == 50


def test_a_second_claim_is_refused_while_the_first_is_online(caplog):
    first = hear([told(3, "0", gain=1.0)])
    both = hear([told(4, "0", gain=2.0)], first, online=[3])
    assert both.node == (3,) and both.gain.tolist() == [1.0]
    assert "node 4 is not heard as device 0: node 3 is that device, and is online" in caplog.text
    gone = hear([told(4, "0", gain=2.0)], both, online=[4])  # the first has left: a restart
    assert gone.node == (4,) and gone.gain.tolist() == [2.0]
    late = hear([told(3, "0", gain=7.0)], gone, online=[3, 4])  # and now the name is taken
    assert late.node == (4,) and late.gain.tolist() == [2.0]


def test_of_two_nodes_with_one_name_the_same_is_heard_in_any_order():
    reports = [told(3, "0", gain=1.0), told(4, "0", gain=2.0)]
    for order in (reports, reports[::-1]):
        fleet = hear(order)
        assert fleet.node == (3,) and fleet.gain.tolist() == [1.0]


def test_rests_double_up_to_64_rounds():
    fleet, rests, t = Fleet(), [], 0
    for _ in range(9):
        fleet = fleet.miss([7], t, "answer")
        until = fleet.trouble[7, "answer"].rests_until
        rests.append(until - t - 1)
        assert fleet.awake([7, 8], until - 1) == [8]
        assert fleet.awake([8, 7], until) == [7, 8]
        t = until
    assert rests == [0, 1, 3, 7, 15, 31, 63, 64, 64]


def test_an_answer_does_not_make_up_for_training():
    fleet = Fleet().miss([7], 0, "train").miss([7], 1, "train")
    assert fleet.met([7], "answer").awake([7, 8], 2) == [8]
    again = fleet.met([7], "train").miss([7], 9, "train")
    assert again.trouble[7, "train"].silences == 2.5


def test_a_node_that_is_silent_every_second_time_comes_to_rest():
    fleet, rests = Fleet(), []
    for t in range(0, 20, 2):
        fleet = fleet.miss([7], t, "answer")
        rests.append(fleet.trouble[7, "answer"].rests_until - t - 1)
        fleet = fleet.met([7], "answer")
    assert rests == [0, 0, 1, 1, 3, 3, 7, 7, 15, 15]
    for _ in range(20):
        fleet = fleet.met([7], "answer")
    assert fleet.trouble == {}


def test_only_those_whose_gain_is_old_are_asked():
    fleet = hear([told(1, "0", t=5), told(2, "1", t=3)])
    assert fleet.silent([1, 2, 3], 5, 0) == [2, 3]
    assert fleet.silent([1, 2, 3], 5, 2) == [3]
    assert fleet.present([1, 2, 3], 5, 0).tolist() == [0]
    assert fleet.present([2, 3], 5, 2).tolist() == [1]


def test_a_gain_of_a_round_to_come_is_asked_for_again():
    fleet = hear([told(1, "0", t=9), told(2, "1", t=5)])
    assert fleet.silent([1, 2], 5, 3) == [1]
    assert fleet.present([1, 2], 5, 3).tolist() == [1]
    assert hear([told(1, "0", t=5)], fleet).present([1, 2], 5, 3).tolist() == [0, 1]
    assert fleet.silent([1, 2], 9, 3) == [2]  # in its own round it is the newest there is


def test_a_fleet_comes_back_as_it_was_saved():
    fleet = hear([told(2**63 + 1, "0"), told(2, "box", gain=np.nan)])
    fleet = fleet.miss([2], 0, "train").miss([2, 5], 1, "answer")
    back = Fleet.from_arrays(fleet.arrays())
    assert (back.name, back.node, back.trouble) == (fleet.name, fleet.node, fleet.trouble)
    assert np.array_equal(back.gain, fleet.gain, equal_nan=True)
    assert np.array_equal(back.heard, fleet.heard)
    empty = Fleet.from_arrays(Fleet().arrays())
    assert len(empty) == 0 and empty.trouble == {}
