"""The website: server-rendered pages, their charts, static files and chart downloads."""
