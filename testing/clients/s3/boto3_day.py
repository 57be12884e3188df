"""A day's work by boto3: ENDPOINT, a folder to store, an empty folder to bring it back to."""
import datetime
import json
import os
import sys
import urllib.request

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import ClientError

endpoint, files, back = sys.argv[1:]
s3 = boto3.client("s3", endpoint_url=endpoint, config=Config(signature_version="s3v4", s3={"addressing_style": "path"}))
transfer = TransferConfig(multipart_threshold=6 * 1024 * 1024, multipart_chunksize=5 * 1024 * 1024)

s3.create_bucket(Bucket="boto")
names = sorted(
    os.path.relpath(os.path.join(folder, name), files) for folder, _, found in os.walk(files) for name in found
)
for name in names:
    s3.upload_file(os.path.join(files, name), "boto", name, Config=transfer, ExtraArgs={"Metadata": {"from": "boto3"}})
listed = [one["Key"] for page in s3.get_paginator("list_objects_v2").paginate(Bucket="boto", PaginationConfig={"PageSize": 2}) for one in page["Contents"]]
assert listed == sorted(names, key=lambda name: name.encode()), listed
for name in names:
    os.makedirs(os.path.dirname(os.path.join(back, name)), exist_ok=True)
    s3.download_file("boto", name, os.path.join(back, name), Config=transfer)
assert s3.head_object(Bucket="boto", Key="notes.txt")["Metadata"] == {"from": "boto3"}

# Conditions, ranges, presigned addresses, forms.
try:
    s3.put_object(Bucket="boto", Key="notes.txt", Body=b"other", IfNoneMatch="*")
    raise SystemExit("the object was there")
except ClientError as error:
    assert error.response["Error"]["Code"] == "PreconditionFailed", error
assert s3.get_object(Bucket="boto", Key="notes.txt", Range="bytes=0-4")["Body"].read() == b"notes"
url = s3.generate_presigned_url("get_object", Params={"Bucket": "boto", "Key": "notes.txt"}, ExpiresIn=60)
assert urllib.request.urlopen(url).read() == b"notes of a day\n"
form = s3.generate_presigned_post("boto", "of-a-form", ExpiresIn=60)
boundary = "----aBoundary"
parts = [f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in form["fields"].items()]
parts.append(f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nof a form\r\n--{boundary}--\r\n')
post = urllib.request.Request(form["url"], "".join(parts).encode(), {"Content-Type": f"multipart/form-data; boundary={boundary}"})
assert urllib.request.urlopen(post).status == 204
assert s3.get_object(Bucket="boto", Key="of-a-form")["Body"].read() == b"of a form"

# Settings of the bucket.
policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::boto/secret/*"}]}
s3.put_bucket_policy(Bucket="boto", Policy=json.dumps(policy))
assert json.loads(s3.get_bucket_policy(Bucket="boto")["Policy"]) == policy
s3.delete_bucket_policy(Bucket="boto")
rules = {"CORSRules": [{"AllowedOrigins": ["https://page.test"], "AllowedMethods": ["GET", "PUT"], "AllowedHeaders": ["*"]}]}
s3.put_bucket_cors(Bucket="boto", CORSConfiguration=rules)
assert s3.get_bucket_cors(Bucket="boto")["CORSRules"] == rules["CORSRules"]
s3.put_public_access_block(Bucket="boto", PublicAccessBlockConfiguration={"BlockPublicAcls": True, "IgnorePublicAcls": True, "BlockPublicPolicy": True, "RestrictPublicBuckets": True})
assert s3.get_public_access_block(Bucket="boto")["PublicAccessBlockConfiguration"]["BlockPublicPolicy"]

# Versions.
s3.put_bucket_versioning(Bucket="boto", VersioningConfiguration={"Status": "Enabled"})
first = s3.put_object(Bucket="boto", Key="v", Body=b"one")["VersionId"]
s3.put_object(Bucket="boto", Key="v", Body=b"two", Tagging="age=new")
assert s3.get_object(Bucket="boto", Key="v", VersionId=first)["Body"].read() == b"one"
assert s3.get_object_tagging(Bucket="boto", Key="v")["TagSet"] == [{"Key": "age", "Value": "new"}]
s3.copy({"Bucket": "boto", "Key": "large.bin"}, "boto", "copied", Config=transfer)
assert s3.get_waiter("object_exists").wait(Bucket="boto", Key="copied") is None
assert s3.head_object(Bucket="boto", Key="copied")["LastModified"] > datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(hours=1)

# All versions, then the bucket.
boto3.resource("s3", endpoint_url=endpoint).Bucket("boto").object_versions.delete()
s3.delete_bucket(Bucket="boto")
assert [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]] == []
