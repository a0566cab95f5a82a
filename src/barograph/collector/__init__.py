"""The write side: how it is put together, the leader's loop, daily jobs and judging."""
