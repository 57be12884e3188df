// What buf compiles of the contracts: file descriptors with comments, as JSON objects and as the encoded bytes of each file.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";

const BUF = join(import.meta.dirname, "../../node_modules/.bin/buf");
const IMAGE_BYTES_MAX = 64 << 20;
/** Contracts of tests: compiled like the others, never linted, released or packed. */
const TESTING = "testing";

/** google.protobuf.FileDescriptorProto in its JSON form; the parts that are read here. */
export interface FileJson {
  readonly name: string;
  readonly package: string;
  readonly dependency?: readonly string[];
  readonly messageType?: readonly MessageJson[];
  readonly enumType?: readonly EnumJson[];
  readonly service?: readonly ServiceJson[];
  readonly sourceCodeInfo?: { readonly location?: readonly LocationJson[] };
}

export interface MessageJson {
  readonly name: string;
  readonly field?: readonly FieldJson[];
  readonly nestedType?: readonly MessageJson[];
  readonly enumType?: readonly EnumJson[];
  readonly oneofDecl?: readonly { readonly name: string }[];
  readonly options?: { readonly mapEntry?: boolean };
}

export interface FieldJson {
  readonly name: string;
  readonly number: number;
  readonly label: "LABEL_OPTIONAL" | "LABEL_REPEATED" | "LABEL_REQUIRED";
  readonly type: string;
  readonly typeName?: string;
  readonly oneofIndex?: number;
  readonly proto3Optional?: boolean;
  readonly jsonName: string;
  readonly options?: { readonly deprecated?: boolean };
}

export interface EnumJson {
  readonly name: string;
  readonly value: readonly { readonly name: string; readonly number: number }[];
}

export interface ServiceJson {
  readonly name: string;
  readonly method?: readonly MethodJson[];
}

export interface MethodJson {
  readonly name: string;
  readonly inputType: string;
  readonly outputType: string;
  readonly clientStreaming?: boolean;
  readonly serverStreaming?: boolean;
}

export interface LocationJson {
  readonly path?: readonly number[];
  readonly leadingComments?: string;
}

export interface ImageFile {
  readonly json: FileJson;
  /** The encoded FileDescriptorProto, comments and json_name in it. */
  readonly encoded: Buffer;
}

/** Compiles every .proto below `folder`, imported standard ones too; in the order of their dependencies. */
export function buildImage(folder: string): ImageFile[] {
  const { file } = JSON.parse(compile(folder, "json").toString("utf8")) as { readonly file: readonly FileJson[] };
  const encoded = splitFileSet(compile(folder, "binpb"));
  if (encoded.length !== file.length) throw new Error(`buf wrote ${file.length} files as JSON and ${encoded.length} as bytes`);
  return file.map((json, at) => ({ json, encoded: encoded[at]! }));
}

function compile(folder: string, format: "json" | "binpb"): Buffer {
  const modules = [{ path: ".", excludes: ["node_modules", TESTING] }, ...(existsSync(join(folder, TESTING)) ? [{ path: TESTING }] : [])];
  const config = JSON.stringify({ version: "v2", modules });
  const args = ["build", ".", "--config", config, "--as-file-descriptor-set", "-o", `-#format=${format}`];
  const result = spawnSync(BUF, args, { cwd: folder, maxBuffer: IMAGE_BYTES_MAX });
  if (result.error !== undefined) throw result.error;
  if (result.status !== 0) throw new Error(`buf ${args.join(" ")} failed:\n${result.stderr.toString("utf8")}`);
  return result.stdout;
}

/** A map is a repeated message whose type is an entry nested in the message that has the field. */
export function mapEntry(message: MessageJson, field: FieldJson): MessageJson | undefined {
  return (message.nestedType ?? []).find(
    (one) => one.options?.mapEntry === true && field.typeName?.endsWith(`.${message.name}.${one.name}`) === true,
  );
}

/** A FileDescriptorSet is nothing but its files, each behind the tag 0x0a and its length. */
export function splitFileSet(bytes: Buffer): Buffer[] {
  const files: Buffer[] = [];
  for (let at = 0; at < bytes.length;) {
    if (bytes[at] !== 0x0a) throw new Error(`byte ${at} of the file descriptor set starts no file`);
    let length = 0;
    let shift = 0;
    do {
      at += 1;
      length += (bytes[at]! & 0x7f) * 2 ** shift;
      shift += 7;
    } while ((bytes[at]! & 0x80) !== 0);
    files.push(bytes.subarray(at + 1, at + 1 + length));
    at += 1 + length;
  }
  return files;
}
