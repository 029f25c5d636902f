"""JSON Schemas of tools and of structured output, made legal for each provider.

`visitor.py` walks a schema, `references.py` resolves references, `types.py` knows the names of types. Over these:
`openai.py` and `function_parameters.py` (the OpenAI format), `anthropic.py`, `gemini/`, and `faults.py`, which names
the places that cannot be sent to any provider. `cache.py` keeps rewritten schemas by content.
"""
