"""Ports for servers that start later."""

import socket

import pytest

from barograph.kit.operating_system import free_port, require_free_port

HOST = "127.0.0.1"


def test_a_free_port_is_reserved_until_its_server_starts() -> None:
    port = free_port(HOST)
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind((HOST, port))
    require_free_port(HOST, port)
    with socket.create_server((HOST, port)) as server:  # it sets SO_REUSEADDR
        assert server.getsockname() == (HOST, port)
