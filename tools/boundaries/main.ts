// `node tools/boundaries/main.ts libs/rpc` checks one project; with `--workspace` also the rules about all of them together. "." is what no project
// owns, as for `tools/words`: it imports nothing.
import { projectViolations, workspaceViolations } from "./rules.ts";
import { readWorkspace } from "./workspace.ts";

const [root, ...flags] = process.argv.slice(2);
const workspace = readWorkspace(process.cwd(), root);
const project = workspace.projects.find((candidate) => candidate.root === root);
if (project === undefined && root !== ".") throw new Error("usage: node tools/boundaries/main.ts PROJECT_FOLDER [--workspace]");
const ofProject = project === undefined ? [] : projectViolations(workspace, project);
const violations = [...ofProject, ...(flags.includes("--workspace") ? workspaceViolations(workspace) : [])];
for (const { rule, where, message } of violations) console.error(`${rule}: ${where}: ${message}`);
process.exitCode = violations.length === 0 ? 0 : 1;
