"""The demo: a simulated world, servers that put it on the wire, and a replay of its past.

`world` is the data, a pure function of seed, epoch and time. `servers` speak the real protocols on
loopback and fail on command. `replay` fills the demo's databases.
"""

__version__ = "1.0.0"
