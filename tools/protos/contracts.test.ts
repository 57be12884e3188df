import assert from "node:assert/strict";
import { appendFileSync, cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { buf, contractProblems } from "./contracts.ts";
import { vendoredProblems } from "./vendored.ts";

const PROTOS = join(import.meta.dirname, "../../protos");
const PROTO = `syntax = "proto3";

// A contract to break.
package concord.sample.v1;

option csharp_namespace = "Concord.Sample.V1";
option go_package = "github.com/concord-db/concord/gen/go/concord/sample/v1;samplev1";
option java_multiple_files = true;
option java_package = "io.github.concorddb.sample.v1";

// A photo.
message Photo {
  // Its id.
  uint64 id = 1;
  // Its title.
  string title = 2;
}

// Photos by id.
service PhotoService {
  // Reads one.
  rpc GetPhoto(GetPhotoRequest) returns (GetPhotoResponse);
}

// Which photo.
message GetPhotoRequest {
  // Its id.
  uint64 id = 1;
}

// The photo.
message GetPhotoResponse {
  // The photo.
  Photo photo = 1;
}
`;

const SEEDED_FAULTS: readonly { name: string; from: string; to: string; complaint: RegExp }[] = [
  { name: "field renumbered", from: "title = 2", to: "title = 3", complaint: /field "2" .* was deleted/ },
  { name: "field type changed", from: "uint64 id = 1;\n  // Its title", to: "string id = 1;\n  // Its title", complaint: /changed type/ },
  { name: "field renamed", from: "string title", to: "string name", complaint: /changed name/ },
  {
    name: "method removed",
    from: "  // Reads one.\n  rpc GetPhoto(GetPhotoRequest) returns (GetPhotoResponse);\n",
    to: "",
    complaint: /GetPhoto.* was deleted/,
  },
  { name: "field without a comment", from: "  // Its title.\n", to: "", complaint: /non-empty comment/ },
  { name: "Go package of another project", from: "concord-db/concord/gen", to: "other/gen", complaint: /go_package" changed/ },
  { name: "Java package left out", from: 'option java_package = "io.github.concorddb.sample.v1";\n', to: "", complaint: /not exactly/ },
  { name: "service badly named", from: "service PhotoService", to: "service Photos", complaint: /suffixed with "Service"/ },
];

let folder = "";
before(() => {
  folder = mkdtempSync(join(tmpdir(), "concord-contracts-"));
  mkdirSync(join(folder, "concord/sample/v1"), { recursive: true });
  cpSync(join(PROTOS, "buf.yaml"), join(folder, "buf.yaml"));
});
after(() => rmSync(folder, { recursive: true }));

const write = (text: string): void => writeFileSync(join(folder, "concord/sample/v1/sample.proto"), text);

test("contracts: no released image: refused", () => {
  write(PROTO);
  assert.match(contractProblems(folder).join("\n"), /released.binpb is missing/);
  assert.deepEqual(buf(folder, "build", "-o", "released.binpb"), []);
});

test("contracts: unchanged or only added to: accepted", () => {
  assert.deepEqual(contractProblems(folder), []);
  write(PROTO.replace("string title = 2;\n", "string title = 2;\n  // Its size.\n  uint64 size_bytes = 3;\n"));
  assert.deepEqual(contractProblems(folder), []);
});

for (const { name, from, to, complaint } of SEEDED_FAULTS) {
  test(`[OPS19] contracts: ${name}: refused`, () => {
    write(PROTO.replace(from, to));
    assert.match(contractProblems(folder).join("\n"), complaint);
  });
}

test("vendored files: as published: accepted; edited, missing or unlisted: refused", (t) => {
  const copy = mkdtempSync(join(tmpdir(), "concord-vendored-"));
  t.after(() => rmSync(copy, { recursive: true }));
  for (const part of ["google", "grpc", "vendored.json"]) cpSync(join(PROTOS, part), join(copy, part), { recursive: true });
  assert.deepEqual(vendoredProblems(copy), []);
  appendFileSync(join(copy, "google/rpc/status.proto"), "// ours\n");
  rmSync(join(copy, "grpc/health/v1/health.proto"));
  writeFileSync(join(copy, "google/rpc/code.proto"), PROTO);
  assert.deepEqual(vendoredProblems(copy), [
    "google/rpc/code.proto: not in vendored.json",
    "google/rpc/status.proto: differs from the file of PyPI googleapis-common-protos 1.76.0",
    "grpc/health/v1/health.proto: in vendored.json, but missing",
  ]);
});
