import { readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";

// The targets of every project, inferred from its package.json. A target that the package.json defines itself under `nx.targets` wins.
// Inputs are a correctness matter: a file in no target's inputs is never tested (tools/affected proves them). Files outside the project
// that a target reads are declared in the package.json: "concord": { "inputs": { "test": ["{workspaceRoot}/docs/**/*.md"] } }.
// Third-party packages are inputs one by one: those of the project and of what it depends on by Nx itself, tools by the target that runs them.

const readManifest = (path) => JSON.parse(readFileSync(join(import.meta.dirname, "../..", path), "utf8"));

/** Folders of the projects, as npm knows them; what runs them (the pinned Node); what tests and tools may import without a line of their own. */
const { workspaces: PROJECT_FOLDERS, optionalDependencies: RUNTIME, devDependencies: SHARED_PACKAGES } = readManifest("package.json");
const externals = (...names) => ({ externalDependencies: [...Object.keys(RUNTIME), ...names] });
const COMPILER = ["typescript", "@types/node"];
const GENERATOR = [
  "@bufbuild/buf",
  ...Object.keys(readManifest("tools/protos/package.json").devDependencies).filter((name) => !name.startsWith("@concord/")),
];

/** Types and services of the contracts a project uses, its own if it has some. */
const GENERATED = ["generate", "^generate"];
const MANIFESTS = PROJECT_FOLDERS.map((folder) => `{workspaceRoot}/${folder}/package.json`);
const IGNORE_RULES = "{workspaceRoot}/.gitignore";
const toolFiles = (name) => [`{workspaceRoot}/tools/${name}/**/*`, `!{workspaceRoot}/tools/${name}/**/*.test.ts`];

const target = (command, inputs, rest = {}) => ({ command, inputs, cache: true, options: { cwd: "." }, ...rest });

function commonTargets(root, name) {
  const lint = `oxlint --type-aware --deny-warnings --no-error-on-unmatched-pattern ${root}`;
  const lintRules = ["{workspaceRoot}/.oxlintrc.json", IGNORE_RULES, ...toolFiles("lint-rules")];
  const formatRules = ["{workspaceRoot}/.oxfmtrc.json", IGNORE_RULES];
  const imported = externals(...Object.keys(SHARED_PACKAGES));
  const resultsFile = `{workspaceRoot}/.nx/test-results/${basename(name)}.json`;
  return {
    boundaries: target(`node tools/boundaries/main.ts ${root}`, ["sources", "^manifest", externals(), ...toolFiles("boundaries")]),
    typecheck: target(`tsc -p ${root}`, ["sources", "^production", imported], { dependsOn: GENERATED }),
    lint: target(lint, ["sources", "^production", imported, ...lintRules], { dependsOn: GENERATED }),
    "format-check": target(`oxfmt --check --no-error-on-unmatched-pattern ${root}`, ["sources", externals("oxfmt"), ...formatRules]),
    words: target(`node tools/words/main.ts ${root}`, ["default", externals(), ...toolFiles("words")]),
    test: target(`node tools/nx/run-tests.ts ${root}`, ["default", "^production", imported], {
      outputs: [resultsFile],
      dependsOn: GENERATED,
    }),
  };
}

const isContract = (root) => root === "protos" || root.startsWith("protos/");

function contractTargets(root) {
  const files = ["{projectRoot}/**/*.proto", "{workspaceRoot}/protos/buf.yaml", "shared", externals(...GENERATOR), ...toolFiles("protos")];
  const released = ["{workspaceRoot}/protos/vendored.json", "{workspaceRoot}/protos/released.binpb"];
  const generated = root === "protos" ? "{projectRoot}/src/gen" : "{projectRoot}/gen";
  return {
    generate: target(`node tools/protos/generate.ts ${root}`, [...files, "^production"], { outputs: [generated] }),
    ...(!root.startsWith("protos/testing") && {
      contracts: target(`node tools/protos/contracts.ts ${root}`, [...files, "^production", ...released]),
    }),
  };
}

// One project checks the rules about all package.json files together.
function workspaceBoundaries({ inputs }) {
  return target("node tools/boundaries/main.ts tools/boundaries --workspace", [...inputs, ...MANIFESTS]);
}

function inferTargets(root, { name, concord }) {
  const targets = commonTargets(root, name);
  if (root.startsWith("apps/")) {
    targets.serve = {
      command: `node ${root}/src/main.ts --config ${root}/serve.json`,
      continuous: true,
      options: { cwd: "." },
      dependsOn: GENERATED,
    };
    // The bundler compiles each file by the tsconfig.json of its own project.
    targets.build = target(`node tools/nx/build-app.ts ${root}`, ["compiled", "^compiled", externals("esbuild", ...COMPILER)], {
      outputs: ["{projectRoot}/dist"],
      dependsOn: GENERATED,
    });
  }
  if (isContract(root)) Object.assign(targets, contractTargets(root));
  if (root === "tools/boundaries") targets.boundaries = workspaceBoundaries(targets.boundaries);
  if (root === "tools/words") targets.words.command += " .";
  for (const [name, inputs] of Object.entries(concord?.inputs ?? {})) targets[name].inputs.push(...inputs);
  return targets;
}

// The generated modules count among the files of a contract, so the generator does.
function inferNamedInputs(root, nxJson) {
  return isContract(root) ? { namedInputs: { default: [...nxJson.namedInputs.default, ...toolFiles("protos")] } } : {};
}

function createNodes(file, { workspaceRoot, nxJsonConfiguration }) {
  const root = dirname(file);
  const manifest = JSON.parse(readFileSync(join(workspaceRoot, file), "utf8"));
  const targets = inferTargets(root, manifest);
  for (const name of Object.keys(manifest.nx?.targets ?? {})) delete targets[name];
  return { projects: { [root]: { targets, ...inferNamedInputs(root, nxJsonConfiguration) } } };
}

export const name = "concord-targets";

export const createNodesV2 = [
  `{${PROJECT_FOLDERS.join(",")}}/package.json`,
  (files, _options, context) => files.map((file) => [file, createNodes(file, context)]),
];
