// Libraries, each with a program that uses it: from npm (the AWS SDK for JavaScript 3 is a dependency of ours), and compiled from the Go module proxy
// and from Maven Central.
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { delimiter, join } from "node:path";
import { download, goMissing, javaMissing, run } from "../../toolchain.ts";
import { makeBucket } from "../callers.ts";
import type { GatewayProgram } from "../gateway-program.ts";
import { assertSameFiles, awsVariables, cached, makeFiles, SCRIPTS, type Client, type Installed } from "./client.ts";

const MINIO_JS = "8.0.7";
/** The last one: this generation has ended, programs that use it have not. */
const AWS_JS_2 = "2.1693.0";
const GO = join(SCRIPTS, "go");
const JAVA = join(SCRIPTS, "java");

export const COMPILED_CLIENTS: readonly Client[] = [
  { name: "aws-sdk-js", install: () => installFromNpm("aws-sdk", AWS_JS_2, "aws_js_day.cjs", "aws-sdk/clients/s3") },
  { name: "aws-sdk-js-3", install: installedAwsJs3 },
  { name: "minio-js", install: () => installFromNpm("minio", MINIO_JS, "minio_day.mjs") },
  { name: "minio-go", install: () => installGo("minio", "github.com/minio/minio-go/v7") },
  { name: "aws-sdk-go", install: () => installGo("aws", "github.com/aws/aws-sdk-go-v2/service/s3") },
  { name: "hadoop-s3a", notItsOwn: ["CreateBucket"], install: installS3a },
];

async function installFromNpm(name: string, version: string, program: string, library = name): Promise<Installed> {
  let folder = "";
  const reason = await download("the npm registry", async () => {
    folder = await cached(`npm-${name}`, version, async (partial) => {
      writeFileSync(join(partial, "package.json"), '{ "private": true }');
      await run("npm", ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--silent", `${name}@${version}`], { cwd: partial });
    });
    cpSync(join(SCRIPTS, program), join(folder, program));
  });
  if (reason !== undefined) return { kind: "missing", reason };
  return { kind: "ready", version, work: (gateway) => filesThrough(gateway, process.execPath, [join(folder, program), library]) };
}

async function installedAwsJs3(): Promise<Installed> {
  const { version } = JSON.parse(readFileSync(createRequire(import.meta.url).resolve("@aws-sdk/client-s3/package.json"), "utf8")) as {
    version: string;
  };
  return { kind: "ready", version, work: (gateway) => filesThrough(gateway, process.execPath, [join(SCRIPTS, "aws_js3_day.mjs")]) };
}

async function installGo(which: "minio" | "aws", module: string): Promise<Installed> {
  const missing = await goMissing();
  if (missing !== undefined) return { kind: "missing", reason: missing };
  const sources = ["go.mod", "go.sum", "main.go", "minio.go", "aws.go"].map((name) => readFileSync(join(GO, name), "utf8"));
  const version = await run("go", ["version"]);
  let folder = "";
  const reason = await download("the Go module proxy", async () => {
    folder = await cached("s3-go", version + sources.join("\n"), async (partial) => {
      const source = join(partial, "source");
      cpSync(GO, source, { recursive: true });
      await run("go", ["build", "-trimpath", "-o", join(partial, "day"), "."], { cwd: source });
      rmSync(source, { recursive: true });
    });
  });
  if (reason !== undefined) return { kind: "missing", reason };
  const used = new RegExp(`${module} v(\\S+)`).exec(sources[0]!)![1]!;
  return { kind: "ready", version: used, work: (gateway) => filesThrough(gateway, join(folder, "day"), [which]) };
}

async function installS3a(): Promise<Installed> {
  const missing = await javaMissing();
  if (missing !== undefined) return { kind: "missing", reason: missing };
  const sources = ["pom.xml", "S3aDay.java"].map((name) => readFileSync(join(JAVA, name), "utf8"));
  const compiler = await run("javac", ["--version"]);
  let folder = "";
  const reason = await download("Maven Central", async () => {
    folder = await cached("s3-java", compiler + sources.join("\n"), async (partial) => {
      const [libraries, classes] = [join(partial, "libraries"), join(partial, "classes")];
      const copied = ["dependency:copy-dependencies", "-DincludeScope=runtime", `-DoutputDirectory=${libraries}`];
      await run("mvn", ["--quiet", "--batch-mode", "--file", join(JAVA, "pom.xml"), ...copied]);
      await run("javac", ["-classpath", join(libraries, "*"), "-d", classes, join(JAVA, "S3aDay.java")]);
    });
  });
  if (reason !== undefined) return { kind: "missing", reason };
  const version = /<hadoop\.version>([^<]+)</.exec(sources[0]!)![1]!;
  const classpath = [join(folder, "classes"), join(folder, "libraries", "*")].join(delimiter);
  const work = async (gateway: GatewayProgram): Promise<void> => {
    // It makes no buckets.
    await makeBucket(gateway.address, "hadoop");
    await filesThrough(gateway, "java", ["-classpath", classpath, "S3aDay"]);
  };
  return { kind: "ready", version, work };
}

/** The program stores a folder of files and brings it back. */
async function filesThrough(gateway: GatewayProgram, program: string, args: readonly string[]): Promise<void> {
  const files = makeFiles(join(gateway.folder, "files"));
  const back = join(gateway.folder, "back");
  mkdirSync(back);
  await run(program, [...args, gateway.address, files, back], { cwd: gateway.folder, env: awsVariables(gateway) });
  assertSameFiles(back, files);
}
