"""A client of Concord in Python: imports every generated module, calls a server, reads its errors, computes tokens, and prints what it
saw as JSON. Usage: client.py GENERATED_FOLDER ADDRESS VECTORS_FILE STANDARD_FOLDER"""

import importlib.util
import json
import pathlib
import sys
import uuid

import grpc
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_status import rpc_status
from row_token import ENCODERS, token_of

TIMEOUT_S = 20
PARSERS = {
    "bigint": int,
    "int": int,
    "text": str,
    "blob": bytes.fromhex,
    "boolean": lambda text: text == "true",
    "double": float,
    "timestamp": int,
    "uuid": uuid.UUID,
}


def import_all(folder):
    """Every generated module by its name."""
    root = pathlib.Path(folder)
    sys.path.insert(0, folder)
    names = [".".join(path.relative_to(root).with_suffix("").parts) for path in root.rglob("*.py")]
    return {name: importlib.import_module(name) for name in sorted(names)}


def load_standard(folder):
    """Loads code generated from protos/google beside Python's own: refused with "duplicate file name" if the files differ."""
    paths = sorted(pathlib.Path(folder).rglob("*_pb2.py"))
    for path in paths:
        spec = importlib.util.spec_from_file_location(f"standard_{path.stem}", path)
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    return [path.stem for path in paths]


def table(definition, modules):
    cell_type, table_kind = modules["concord.common.v1.cells_pb2"].CellType, modules["concord.common.v1.schema_pb2"].TableKind
    columns = [{"name": column.name, "type": cell_type.Name(column.type)} for column in definition.columns]
    kind = table_kind.Name(definition.kind)
    return {"name": definition.name, "kind": kind, "columns": columns, "partitionKey": list(definition.partition_key)}


def failure(error):
    status = rpc_status.from_call(error)
    seen = {"status": error.code().name, "message": status.message}
    for detail in status.details:
        info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
        if detail.Unpack(info):
            seen |= {"reason": info.reason, "domain": info.domain, "metadata": dict(info.metadata)}
        elif detail.Unpack(retry):
            seen["retryDelayMs"] = retry.retry_delay.ToMilliseconds()
    return seen


def tokens(path):
    """The token of each published vector from its value, or from the bytes to hash where the type is not known here."""
    seen = {}
    for vector in json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["vectors"]:
        encoded = bytes.fromhex(vector["hashed"])
        if vector["type"] in ENCODERS:
            encoded = ENCODERS[vector["type"]](PARSERS[vector["type"]](vector["value"]))
        seen[f"{vector['type']} {vector['value']}"] = str(token_of(encoded))
    return seen


def main(generated, address, vectors, standard):
    modules = import_all(generated)
    storage, storage_grpc = modules["concord.storage.v1.schema_pb2"], modules["concord.storage.v1.schema_pb2_grpc"]
    with grpc.insecure_channel(address) as channel:
        health = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=TIMEOUT_S)
        schemas = storage_grpc.SchemaServiceStub(channel)
        schema = schemas.GetSchema(storage.GetSchemaRequest(), timeout=TIMEOUT_S)
        try:
            schemas.GetSchema(storage.GetSchemaRequest(schema_version=99), timeout=TIMEOUT_S)
        except grpc.RpcError as error:
            failed = failure(error)
    seen = {
        "health": health_pb2.HealthCheckResponse.ServingStatus.Name(health.status),
        "tables": [table(definition, modules) for definition in schema.definitions],
        "failure": failed,
        "tokens": tokens(vectors),
        "modules": len(modules),
        "standard": load_standard(standard),
    }
    print(json.dumps(seen))


main(*sys.argv[1:])
