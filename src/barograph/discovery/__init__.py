"""How the service describes itself: the index, OpenAPI, the GPT spec and texts for programs."""
