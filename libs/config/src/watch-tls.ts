import { createSecureContext } from "node:tls";
import type { Clock, Log, Timer } from "@concord/runtime";
import { tlsOf, type ServerConfig, type TlsConfig } from "./server-shape.ts";

/** Certificates that were replaced are found within this time. */
export const TLS_READ_EVERY_MS = 30_000;

export interface WatchTlsOptions {
  readonly readFile: (path: string) => string;
  readonly clock: Clock;
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
  const watch = new TlsWatch(config, tls, options);
  const tlsChanges: Changes<ServerTexts> = (listener) =>
    watch.onChange(({ server }) => {
      if (server !== undefined) listener(server);
    });
  return {
    grpc: { tls, tlsChanges: (listener) => watch.onChange(listener) },
    http: tls.server === undefined ? {} : { tls: tls.server, tlsChanges },
    close: () => watch.close(),
  };
}

class TlsWatch {
  readonly #config: ServerConfig;
  readonly #options: WatchTlsOptions;
  readonly #listeners: ((tls: TlsConfig) => void)[] = [];
  #texts: string;
  /** Texts that do not fit together: said once. */
  #refused: string | undefined;
  #timer: Timer;

  constructor(config: ServerConfig, tls: TlsConfig, options: WatchTlsOptions) {
    [this.#config, this.#options, this.#texts] = [config, options, JSON.stringify(tls)];
    this.#timer = this.#later();
  }

  onChange(listener: (tls: TlsConfig) => void): void {
    this.#listeners.push(listener);
  }

  close(): void {
    this.#timer.cancel();
  }

  #later(): Timer {
    return this.#options.clock.setTimer(TLS_READ_EVERY_MS, () => {
      this.#read();
      this.#timer = this.#later();
    });
  }

  /** Files are replaced one after the other: until they fit together the texts before stay in use. */
  #read(): void {
    const { readFile, log } = this.#options;
    let texts = "";
    try {
      const tls = tlsOf(this.#config, readFile)!;
      texts = JSON.stringify(tls);
      if (texts === this.#texts) return;
      check(tls);
      this.#texts = texts;
      for (const listener of this.#listeners) listener(tls);
      log.info("certificates replaced");
    } catch (thrown) {
      if (this.#refused === texts) return;
      this.#refused = texts;
      log.warn("certificates cannot be replaced; those before stay in use", {
        reason: thrown instanceof Error ? thrown.message : String(thrown),
      });
    }
  }
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
