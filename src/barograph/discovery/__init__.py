"""How the service describes itself: the index, OpenAPI, GPT actions, llms.txt and small files."""
