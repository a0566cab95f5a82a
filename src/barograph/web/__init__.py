"""The read side: how it is put together, how errors become answers, and the web server."""
