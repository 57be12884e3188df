"""Checks documents (a JSON list on standard input) by the schemas of the Kubernetes versions given: no unknown property, no wrong type."""

import json
import sys

import kubernetes_validate

problems = []
for document in json.load(sys.stdin):
    for version in sys.argv[1:]:
        try:
            kubernetes_validate.validate(document, version, strict=True)
        except Exception as error:  # each says what is wrong
            problems.append(f"{document.get('kind')} {document.get('metadata', {}).get('name')} ({version}): {error}")
print(json.dumps(problems))
