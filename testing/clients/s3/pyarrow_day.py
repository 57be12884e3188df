"""A day's work by pyarrow, which is the AWS SDK for C++: ENDPOINT (host:port), a folder to store, an empty folder to bring it back to."""
import os
import sys

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

endpoint, files, back = sys.argv[1:]
s3 = fs.S3FileSystem(
    access_key=os.environ["AWS_ACCESS_KEY_ID"],
    secret_key=os.environ["AWS_SECRET_ACCESS_KEY"],
    region=os.environ["AWS_REGION"],
    endpoint_override=endpoint,
    scheme="http",
    allow_bucket_creation=True,
    allow_bucket_deletion=True,
)
local = fs.LocalFileSystem()

s3.create_dir("arrow")
fs.copy_files(files, "arrow/all", source_filesystem=local, destination_filesystem=s3)
found = s3.get_file_info(fs.FileSelector("arrow/all", recursive=True))
names = sorted(info.path for info in found if info.type == fs.FileType.File)
assert len(names) == sum(len(some) for _, _, some in os.walk(files)), names
fs.copy_files("arrow/all", back, source_filesystem=s3, destination_filesystem=local)

# Tables: one file in parts, and partitions by folders.
table = pa.table({"day": [day % 3 for day in range(30_000)], "n": list(range(30_000))})
pq.write_table(table, "arrow/table.parquet", filesystem=s3)
assert pq.read_table("arrow/table.parquet", filesystem=s3, columns=["n"]).num_rows == 30_000
ds.write_dataset(table, "arrow/days", format="parquet", partitioning=["day"], filesystem=s3)
assert ds.dataset("arrow/days", partitioning=["day"], filesystem=s3).count_rows(filter=ds.field("day") == 1) == 10_000

# Streams, ranges, copies, and an end.
with s3.open_output_stream("arrow/large.bin") as stream:
    for piece in range(12):
        stream.write(bytes([piece]) * 1024 * 1024)
with s3.open_input_file("arrow/large.bin") as large:
    assert large.size() == 12 * 1024 * 1024
    assert large.read_at(3, 5 * 1024 * 1024 - 1) == b"\x04\x05\x05"
s3.move("arrow/large.bin", "arrow/moved.bin")
assert s3.get_file_info("arrow/large.bin").type == fs.FileType.NotFound
s3.delete_dir_contents("arrow")
s3.delete_dir("arrow")
