/** The only importer of zod: schemas are written with the `z` from here. */
export { z } from "zod";
export { buildOf, versionText, type Build } from "./build.ts";
export { configOfProcess, loadConfig, type ConfigProcess, type Loaded, type LoadOptions } from "./load.ts";
export {
  diskShape,
  serverShape,
  tlsOf,
  checkServer,
  tokensOf,
  type RoleTokenConfig,
  type ServerConfig,
  type TlsConfig,
} from "./server-shape.ts";
export { watchTls, type WatchedTls, type WatchTlsOptions } from "./watch-tls.ts";
export { TEXT_READ_EVERY_MS, WatchedText, type WatchedTextOptions } from "./watched-text.ts";
export { HIDDEN, secret, type ConfigSchema } from "./shape.ts";
