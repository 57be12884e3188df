"""A day's work by obstore, which is the object_store of Rust: ENDPOINT, a folder to store, an empty folder to bring it back to."""
import os
import sys

import obstore
from obstore.exceptions import AlreadyExistsError
from obstore.store import S3Store

endpoint, files, back, bucket = sys.argv[1:]
store = S3Store(bucket, endpoint=endpoint, region=os.environ["AWS_REGION"], virtual_hosted_style_request=False, client_options={"allow_http": True})

names = [os.path.relpath(os.path.join(folder, name), files) for folder, _, found in os.walk(files) for name in found]
for name in names:
    with open(os.path.join(files, name), "rb") as file:
        obstore.put(store, name, file, chunk_size=5 * 1024 * 1024)
listed = [one["path"] for page in obstore.list(store, chunk_size=2) for one in page]
assert sorted(listed) == sorted(names), listed
assert obstore.list_with_delimiter(store)["common_prefixes"], "folders are prefixes"
for name in names:
    os.makedirs(os.path.dirname(os.path.join(back, name)), exist_ok=True)
    with open(os.path.join(back, name), "wb") as file:
        file.write(obstore.get(store, name).bytes())
assert bytes(obstore.get_range(store, "notes.txt", start=0, end=5)) == b"notes"

# Conditional writes, as table formats have them.
try:
    obstore.put(store, "notes.txt", b"other", mode="create", use_multipart=False)
    raise SystemExit("the object was there")
except AlreadyExistsError:
    pass
obstore.put(store, "commit", b"1", mode="create", use_multipart=False)
version = obstore.head(store, "commit")
obstore.put(store, "commit", b"2", mode={"e_tag": version["e_tag"]}, use_multipart=False)
assert bytes(obstore.get(store, "commit").bytes()) == b"2"

obstore.copy(store, "notes.txt", "copied +.txt")
obstore.rename(store, "copied +.txt", "renamed.txt")
assert bytes(obstore.get(store, "renamed.txt").bytes()) == b"notes of a day\n"
obstore.delete(store, [*names, "commit", "renamed.txt"])
assert not [one for page in obstore.list(store) for one in page]
