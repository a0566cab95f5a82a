"""How the service describes itself: the index and the OpenAPI document."""
