"""`/api/mcp`: the free endpoints as tools of the Model Context Protocol.

The SDK's package is also called `mcp`, so import these modules by their full names.
"""
