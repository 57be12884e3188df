import { createSecureContext } from "node:tls";
import type { Clock, Log, Tasks } from "@concord/runtime";
import { tlsOf, type ServerConfig, type TlsConfig } from "./server-shape.ts";
import { WatchedText } from "./watched-text.ts";

export interface WatchTlsOptions {
  readonly readFile: (path: string) => string;
  readonly clock: Clock;
  readonly tasks?: Tasks | undefined;
  readonly log: Log;
}

type ServerTexts = NonNullable<TlsConfig["server"]>;
type Changes<Value> = (listener: (value: Value) => void) => void;

/** TLS as the options of a server's transports; empty where it is off. */
export interface WatchedTls {
  /** For the rpc lib's transport. */
  readonly grpc: { readonly tls?: TlsConfig; readonly tlsChanges?: Changes<TlsConfig> };
  /** For the HTTP server. */
  readonly http: { readonly tls?: ServerTexts; readonly tlsChanges?: Changes<ServerTexts> };
  /** The files are read no longer. */
  close(): void;
}

/** Reads the PEM files of the configuration, now (throws when one cannot be read) and again and again: new texts go to both transports once they fit together. */
export function watchTls(config: ServerConfig, options: WatchTlsOptions): WatchedTls {
  const tls = tlsOf(config, options.readFile);
  if (tls === undefined) return { grpc: {}, http: {}, close: () => undefined };
  const listeners: ((replaced: TlsConfig) => void)[] = [];
  const onChange: Changes<TlsConfig> = (listener) => void listeners.push(listener);
  const { readFile, log } = options;
  // Files are replaced one after the other: until they fit together the texts before stay in use.
  const watched = new WatchedText({
    ...options,
    name: "certificates",
    text: JSON.stringify(tls),
    read: () => JSON.stringify(tlsOf(config, readFile)),
    take: (text) => {
      const replaced = JSON.parse(text) as TlsConfig;
      check(replaced);
      for (const listener of listeners) listener(replaced);
      log.info("certificates replaced");
    },
    refused: (reason) => log.warn("certificates cannot be replaced; those before stay in use", { reason }),
  });
  const tlsChanges: Changes<ServerTexts> = (listener) =>
    onChange(({ server }) => {
      if (server !== undefined) listener(server);
    });
  return {
    grpc: { tls, tlsChanges: onChange },
    http: tls.server === undefined ? {} : { tls: tls.server, tlsChanges },
    close: () => watched.close(),
  };
}

/** Throws when a key is not its certificate's, or a text is none. */
function check({ server, channel }: TlsConfig): void {
  for (const { certificate: cert, key, ca } of [
    { ...server, ca: server?.clientCa },
    { ...channel, ca: channel?.serverCa },
  ])
    createSecureContext({
      ...(cert === undefined ? {} : { cert }),
      ...(key === undefined ? {} : { key }),
      ...(ca === undefined ? {} : { ca }),
    });
}
