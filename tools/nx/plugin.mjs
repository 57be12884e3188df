import { readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";

// The targets of every project, inferred from its package.json. A target that the package.json defines itself under `nx.targets` wins.
// Inputs are a correctness matter: a file in no target's inputs is tested by nobody (tools/affected proves them).

const GENERATED_TYPES = [{ target: "generate", projects: ["@concord/protos"] }];
const MANIFESTS = ["apps/*", "libs/*", "protos", "tools"].map((folder) => `{workspaceRoot}/${folder}/package.json`);
const CLAIM_FILES = ["docs/design/**/*.md", ...["apps", "libs", "protos"].map((folder) => `${folder}/**/*.test.ts`)].map(
  (pattern) => `{workspaceRoot}/${pattern}`,
);
const IGNORE_RULES = "{workspaceRoot}/.gitignore";
const toolFiles = (name) => [`{workspaceRoot}/tools/${name}/**/*`, `!{workspaceRoot}/tools/${name}/**/*.test.ts`];

const target = (command, inputs, rest = {}) => ({ command, inputs, cache: true, options: { cwd: "." }, ...rest });

function commonTargets(root) {
  const lint = `oxlint --type-aware --deny-warnings --no-error-on-unmatched-pattern ${root}`;
  const lintRules = ["{workspaceRoot}/.oxlintrc.json", IGNORE_RULES, ...toolFiles("lint-rules")];
  const formatRules = ["{workspaceRoot}/.oxfmtrc.json", IGNORE_RULES];
  const resultsFile = `{workspaceRoot}/.nx/test-results/${basename(root)}.json`;
  return {
    boundaries: target(`node tools/boundaries/main.ts ${root}`, ["sources", "^manifest", ...toolFiles("boundaries")]),
    typecheck: target(`tsc -p ${root}`, ["sources", "^production"], { dependsOn: GENERATED_TYPES }),
    lint: target(lint, ["sources", "^production", ...lintRules], { dependsOn: GENERATED_TYPES }),
    "format-check": target(`oxfmt --check --no-error-on-unmatched-pattern ${root}`, ["sources", ...formatRules]),
    test: target(`node tools/nx/run-tests.ts ${root}`, ["default", "^production"], { outputs: [resultsFile] }),
  };
}

function protosTargets() {
  const contracts = ["{projectRoot}/**/*.proto", "{projectRoot}/buf.yaml", "{projectRoot}/vendored.json", "shared", ...toolFiles("protos")];
  return {
    generate: target("node tools/protos/generate.ts", contracts, { outputs: ["{projectRoot}/src/gen"] }),
    contracts: target("node tools/protos/contracts.ts", [...contracts, "{projectRoot}/released.binpb"]),
  };
}

// The tools project also answers for the whole: rules about all package.json files together, lint rules seen to fail, and the claims
// of docs/design, whose test looks into everybody's tests.
function toolsTargets(root) {
  const { test, boundaries } = commonTargets(root);
  return {
    boundaries: { ...boundaries, ...target(`node tools/boundaries/main.ts ${root} --workspace`, [...boundaries.inputs, ...MANIFESTS]) },
    test: { ...test, inputs: [...test.inputs, "{workspaceRoot}/.oxlintrc.json", ...CLAIM_FILES] },
  };
}

function inferTargets(root) {
  const targets = commonTargets(root);
  if (root.startsWith("apps/")) {
    targets.build = target(`node tools/nx/build-app.ts ${root}`, ["production", "^production"], { outputs: ["{projectRoot}/dist"] });
  }
  if (root === "protos") Object.assign(targets, protosTargets());
  if (root === "tools") Object.assign(targets, toolsTargets(root));
  return targets;
}

// The generated types count among the files of protos, so the generator does.
function inferNamedInputs(root, nxJson) {
  return root === "protos" ? { namedInputs: { default: [...nxJson.namedInputs.default, ...toolFiles("protos")] } } : {};
}

function createNodes(file, { workspaceRoot, nxJsonConfiguration }) {
  const root = dirname(file);
  const { nx } = JSON.parse(readFileSync(join(workspaceRoot, file), "utf8"));
  const targets = inferTargets(root);
  for (const name of Object.keys(nx?.targets ?? {})) delete targets[name];
  return { projects: { [root]: { targets, ...inferNamedInputs(root, nxJsonConfiguration) } } };
}

export const name = "concord-targets";

export const createNodesV2 = [
  "{apps/*,libs/*,protos,tools}/package.json",
  (files, _options, context) => files.map((file) => [file, createNodes(file, context)]),
];
