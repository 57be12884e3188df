export {
  readText,
  runServer,
  ServerProgram,
  settingsOf,
  type Announce,
  type HttpOptions,
  type Machine,
  type ProgramConfig,
  type ProgramEnvironment,
  type Served,
  type ServerProgramOptions,
  type Settings,
} from "./server-program.ts";
