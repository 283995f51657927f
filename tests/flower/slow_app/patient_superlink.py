"""Flower's SuperLink, but for one thing: it takes longer until it believes that an app is gone.

On a busy machine an app can be late with its heartbeats, and the run would end there.
"""

from flwr.common import constant

constant.HEARTBEAT_PATIENCE = 20

from flwr.superlink.cli import flower_superlink  # noqa: E402

if __name__ == "__main__":
    flower_superlink()
