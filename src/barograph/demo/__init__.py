"""The simulated exchange: a world of prices behind Bybit v5's own REST and websocket protocol.

`world` is the data, a pure function of seed, epoch and time. `rest` and `stream` put it on the
wire, `faults` breaks it on command, `exchange` serves all of it on one loopback port.
"""
