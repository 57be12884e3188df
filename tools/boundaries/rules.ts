// The layers as rules: who may import whom. Nothing here reads the Nx graph, so an empty or stale Nx cache hides nothing.
import { builtinModules } from "node:module";
import { posix } from "node:path";
import { circlesOf } from "./circles.ts";
import { NON_NULL_MAX } from "./non-null.ts";
import { isTestPath, type Project, type SourceFile, type Workspace } from "./workspace.ts";

export interface Violation {
  readonly rule: string;
  readonly where: string;
  readonly message: string;
}

/**
 * What a project of each layer may depend on. Nothing depends on testing and tools but themselves; tests of any layer may import
 * testing projects that their package.json declares under devDependencies (contract suites, in-memory implementations).
 */
const LAYERS: Readonly<Record<string, readonly string[]>> = {
  base: ["base"],
  ports: ["base", "ports"],
  domain: ["base", "ports", "domain"],
  engine: ["base", "ports", "domain", "engine"],
  protos: ["protos"],
  wire: ["base", "ports", "domain", "protos", "wire"],
  kit: ["base", "protos", "kit"],
  adapters: ["base", "ports", "domain", "protos", "wire", "kit"],
  app: ["base", "ports", "domain", "engine", "protos", "wire", "kit", "adapters"],
  bundle: ["base", "ports", "domain", "engine", "protos", "wire", "kit", "adapters", "app"],
  testing: ["base", "ports", "domain", "engine", "protos", "wire", "kit", "adapters", "app", "bundle", "testing"],
  tools: ["base", "ports", "domain", "engine", "protos", "wire", "kit", "adapters", "app", "bundle", "testing", "tools"],
};

/** Layers whose production code imports no npm package and no `node:*`. */
const PURE_LAYERS = new Set(["base", "ports", "domain"]);
/** Layers outside the product, which may talk to a store or a server directly. */
const OUTSIDE_LAYERS = new Set(["testing", "tools"]);
/** Third-party clients; each belongs to one lib, all other projects go through it. */
const CLIENTS = new Set([
  "level",
  "@grpc/grpc-js",
  "@grpc/proto-loader",
  "kafkajs",
  "cassandra-driver",
  "pino",
  "prom-client",
  "zod",
  "koffi",
]);
const REFUSED_NAMES = new Set(["util", "utils", "helper", "helpers", "common", "manager", "managers"]);
const BUILTINS = new Set(builtinModules);
const SCOPE = "@concord/";

/** "@scope/name/sub/path" -> "@scope/name". */
function packageOf(specifier: string): string {
  return specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
}

/** Rules about one project: its tag, its imports, its declared dependencies, its file names. */
export function projectViolations(workspace: Workspace, project: Project): Violation[] {
  const layer = project.layers[0];
  if (project.layers.length !== 1 || layer === undefined || !Object.hasOwn(LAYERS, layer)) {
    const known = Object.keys(LAYERS).join(", ");
    return [{ rule: "untagged", where: project.root, message: `needs exactly one tag layer:<${known}> under nx.tags of its package.json` }];
  }
  return [
    ...dependencyViolations(workspace, project, layer),
    ...project.files.flatMap((file) => fileViolations(workspace, project, layer, file)),
    ...circleViolations(project),
    ...nonNullViolations(project),
  ];
}

function dependencyViolations(workspace: Workspace, project: Project, layer: string): Violation[] {
  const violations: Violation[] = [];
  const imported = new Set(project.files.flatMap((file) => file.imports.map(packageOf)));
  const at = (rule: string, message: string): number => violations.push({ rule, where: `${project.root}/package.json`, message });
  for (const dependency of [...project.dependencies, ...project.devDependencies]) {
    if (!imported.has(dependency)) at("unused", `declares ${dependency} but imports it nowhere`);
  }
  for (const dependency of new Set([...project.dependencies, ...project.devDependencies, ...project.implicitDependencies])) {
    if (!dependency.startsWith(SCOPE)) continue;
    const target = workspace.projects.find((other) => other.name === dependency);
    const targetLayer = target?.layers[0];
    const isTestKit = targetLayer === "testing" && project.devDependencies.has(dependency);
    if (target === undefined) at("unknown", `declares ${dependency}, which is no project of the workspace`);
    else if (targetLayer === undefined || !(isTestKit || LAYERS[layer]!.includes(targetLayer))) {
      at("layer", `${layer} may not depend on ${dependency} (${targetLayer ?? "untagged"})`);
    }
  }
  return violations;
}

function fileViolations(workspace: Workspace, project: Project, layer: string, file: SourceFile): Violation[] {
  const where = `${project.root}/${file.path}`;
  const refused = file.path.split("/").find((part) =>
    part
      .replace(/\..*$/, "")
      .split("-")
      .some((word) => REFUSED_NAMES.has(word)),
  );
  const naming = refused === undefined ? [] : [{ rule: "name", where, message: `${refused} says nothing: name what is inside` }];
  const violations = file.imports.flatMap((specifier) => importViolation(workspace, project, layer, file, specifier));
  return [...naming, ...violations.map(([rule, message]) => ({ rule, where, message }))];
}

function circleViolations(project: Project): Violation[] {
  return circlesOf(project.files).map((circle) => ({
    rule: "circle",
    where: `${project.root}/${circle[0]!}`,
    message: `imports itself: ${[...circle, circle[0]!].join(" -> ")}; move what both need to a file below them`,
  }));
}

/** A ratchet: the table in non-null.ts is lowered, never raised. */
function nonNullViolations({ root, files }: Project): Violation[] {
  const max = NON_NULL_MAX[root] ?? 0;
  const counted = files.filter(({ isTest, nonNull }) => !isTest && nonNull > 0);
  const sum = counted.reduce((total, { nonNull }) => total + nonNull, 0);
  if (sum <= max) return [];
  const most = counted.toSorted((a, b) => b.nonNull - a.nonNull).slice(0, 5);
  const message = `${sum} non-null assertions (\`!\`), at most ${max}; most in ${most.map(({ path, nonNull }) => `${path} (${nonNull})`).join(", ")}`;
  return [{ rule: "non-null", where: root, message }];
}

/** At most one violation per import: the first rule it breaks. */
function importViolation(workspace: Workspace, project: Project, layer: string, file: SourceFile, specifier: string): [string, string][] {
  if (specifier.startsWith(".") || specifier.startsWith("/")) return relativeViolation(file, specifier);
  const name = packageOf(specifier);
  const isPure = PURE_LAYERS.has(layer) && !file.isTest;
  if (specifier.startsWith("node:") || BUILTINS.has(name)) {
    return isPure ? [["pure", `${layer} code imports no node:*, but ${specifier}`]] : [];
  }
  if (isPure && !name.startsWith(SCOPE)) return [["pure", `${layer} code imports no npm package, but ${specifier}`]];
  // Programs of the testing layer run from a full install only.
  const isDevelopment = (file.isTest || layer === "testing") && project.devDependencies.has(name);
  const isTool = (file.isTest || layer === "tools") && workspace.rootDevDependencies.has(name);
  if (!project.dependencies.has(name) && !isDevelopment && !isTool)
    return [["undeclared", `imports ${specifier}, which package.json does not declare${file.isTest ? "" : " for production code"}`]];
  const target = workspace.projects.find((other) => other.name === name);
  if (target === undefined || specifier === name) return [];
  if (specifier === `${name}/testing` && !file.isTest && !OUTSIDE_LAYERS.has(layer)) {
    return [["test", `imports ${specifier}, which is there for tests only`]];
  }
  const isPublic = target.exports.includes(`.${specifier.slice(name.length)}`);
  return isPublic ? [] : [["deep", `imports ${specifier} past the public names of ${name}`]];
}

function relativeViolation(file: SourceFile, specifier: string): [string, string][] {
  const target = posix.join(posix.dirname(file.path), specifier);
  if (specifier.startsWith("/") || target.startsWith("..")) return [["leaves", `imports ${specifier}, outside its own project`]];
  return isTestPath(target) && !file.isTest ? [["test", `imports ${specifier}, which is there for tests only`]] : [];
}

/** Rules about all projects together; they need the package.json files only, as every import is declared. */
export function workspaceViolations(workspace: Workspace): Violation[] {
  return [...clientViolations(workspace), ...cycleViolations(workspace), ...versionViolations(workspace)];
}

function clientViolations({ projects }: Workspace): Violation[] {
  const product = projects.filter((project) => !project.layers.some((layer) => OUTSIDE_LAYERS.has(layer)));
  return [...CLIENTS].flatMap((client) => {
    const users = product.filter((project) => project.dependencies.has(client)).map((project) => project.root);
    if (users.length > 1) return [{ rule: "client", where: users.join(", "), message: `${client} belongs to exactly one lib` }];
    const isApp = users[0]?.startsWith("apps/") === true;
    return isApp ? [{ rule: "client", where: users[0]!, message: `${client} belongs to a lib, not to an app` }] : [];
  });
}

function versionViolations({ version, projects }: Workspace): Violation[] {
  const message = `every project has the version of the workspace, ${version}`;
  return projects.filter((project) => project.version !== version).map(({ root }) => ({ rule: "version", where: root, message }));
}

function cycleViolations({ projects }: Workspace): Violation[] {
  const byName = new Map(projects.map((project) => [project.name, project]));
  const done = new Set<string>();
  const violations: Violation[] = [];
  const visit = (name: string, path: readonly string[]): void => {
    const start = path.indexOf(name);
    if (start >= 0) {
      const cycle = [...path.slice(start), name].join(" -> ");
      violations.push({ rule: "cycle", where: byName.get(name)!.root, message: cycle });
      return;
    }
    if (done.has(name)) return;
    for (const dependency of byName.get(name)?.dependencies ?? []) visit(dependency, [...path, name]);
    done.add(name);
  };
  for (const name of byName.keys()) visit(name, []);
  return violations;
}
