"""`/api/mcp`: the free reads as tools of the Model Context Protocol.

The SDK's own package is called `mcp` as well, so everything here is imported by its full name.
"""
