// What the installed package exports: its types stand without any other package.
export { startConcord, type RunningConcord, type StartOptions } from "./start-concord.ts";
