/** The keys every server has, and what they become. */
import { z } from "zod";
import { secret } from "./shape.ts";

const headerValue = z.string().regex(/^[\t\x20-\x7e]*$/, "expected a header's value: ASCII without line ends");
/** What is no address is refused elsewhere. */
const hasNoCredentials = (text: string): boolean => {
  const { username, password } = URL.parse(text) ?? { username: "", password: "" };
  return username === "" && password === "";
};
const token = (text: string): z.ZodOptional<z.ZodString> => secret(z.string().min(1)).optional().describe(text);
const pemFile = (text: string): z.ZodOptional<z.ZodString> => z.string().optional().describe(`PEM file: ${text}`);

const CALLERS_MAX = 1_000;

const caller = z.strictObject({
  name: z.string().regex(/^[A-Za-z0-9_.@-]{1,64}$/, "expected 1 to 64 letters, digits, -, _, . or @"),
  role: z.enum(["client", "coordinator", "peer", "operator"]),
  token: secret(z.string().min(8, "a token has at least 8 characters").max(256)),
});

/** For the schema of a server; `checkServer` checks what must be given together. */
export const serverShape = {
  listenAddress: z
    .string()
    .regex(/^.+:\d+$/, "expected host:port")
    .default("127.0.0.1:0")
    .describe("address of the gRPC server; port 0 takes a free one"),
  adminAddress: z
    .string()
    .regex(/^.+:\d+$/, "expected host:port")
    .default("127.0.0.1:0")
    .describe("address of /metrics, /healthz and /readyz; keep it on loopback or a private network"),
  logLevel: z.enum(["debug", "info", "warn", "error", "silent"]).default("info").describe("lowest level that is logged"),
  drainGraceMs: z.number().int().min(0).max(60_000).default(5_000).describe("how long calls in flight may take after SIGTERM"),
  lameDuckMs: z
    .number()
    .int()
    .min(0)
    .max(60_000)
    .default(0)
    .describe(
      "how long calls are served on after SIGTERM, before drainGraceMs begins, while /readyz says no: until balancers have noticed",
    ),
  outputBufferBytes: z
    .number()
    .int()
    .min(4 * 1024 * 1024)
    .default(128 * 1024 * 1024)
    .describe(
      "memory for pages and large answers that gRPC clients have not taken yet; a client that reads nothing loses its share to others",
    ),
  inputBufferBytes: z
    .number()
    .int()
    .min(4 * 1024 * 1024)
    .default(128 * 1024 * 1024)
    .describe("memory for gRPC requests under way; no caller, address or connection can use it up: more is refused (OVERLOADED)"),
  reflection: z.boolean().default(true).describe("answer gRPC server reflection; callers need a token where clients do"),
  clientToken: token("bearer token of clients; without it a caller without credentials is a client"),
  coordinatorToken: token("bearer token of transaction coordinators"),
  peerToken: token("bearer token of peers"),
  operatorToken: token("bearer token of operators"),
  callers: z
    .array(caller)
    .max(CALLERS_MAX)
    .default([])
    .describe(
      "callers with tokens of their own: name, role (client, coordinator, peer, operator) and token; audit lines of the log name them. Servers call each other with the tokens above",
    ),
  openToAll: z
    .boolean()
    .default(false)
    .describe("listen at an address that every network reaches, as 0.0.0.0, although clients need neither a token nor a certificate"),
  traceEndpoint: z
    .url({ protocol: /^https?$/, error: "expected an address of http or https" })
    .refine(hasNoCredentials, "has credentials: they belong into traceHeaders")
    .optional()
    .describe("where traces go, by OTLP over HTTP in JSON, as http://collector:4318/v1/traces; left out = nothing is traced"),
  traceSampleRatio: z
    .number()
    .min(0)
    .max(1)
    .default(0.01)
    .describe("share of the traces that begin here which is sampled; a caller's traceparent decides for its own"),
  traceHeaders: secret(z.record(z.string().regex(/^[A-Za-z0-9-]+$/, "expected names of headers"), headerValue))
    .default({})
    .describe("headers of what is sent to traceEndpoint, as a collector's authorization"),
  tlsCertificateFile: pemFile("the server's certificate chain; with tlsKeyFile turns TLS on"),
  tlsKeyFile: pemFile("the server's private key"),
  tlsClientCaFile: pemFile("authority of client certificates; with it clients must have one (mutual TLS)"),
  tlsServerCaFile: pemFile("authority of the servers this process calls; with it those connections use TLS"),
  tlsServerName: z
    .string()
    .min(1)
    .optional()
    .describe(
      "name in the certificates of all servers this process calls, where it calls them by names or IP addresses that are not in them",
    ),
} as const;

const LOW_SPACE_BYTES = 256 * 1024 * 1024;
const RESERVE_BYTES = 64 * 1024 * 1024;

/** Of servers that take data in. */
export const diskShape = {
  lowSpaceBytes: z
    .number()
    .int()
    .min(0)
    .default(LOW_SPACE_BYTES)
    .describe("with fewer bytes free on the disk new data is refused, while reads, deletes and collection go on; 0: never refused"),
  reserveBytes: z
    .number()
    .int()
    .min(0)
    .default(RESERVE_BYTES)
    .describe(
      "size of the file `reserve` in the data folder, half of which is given up on a full disk, and all of it to a start there: stores need room to open and to delete; 0: none",
    ),
} as const;

export type ServerConfig = z.output<z.ZodObject<typeof serverShape>>;

/** What must hold between the keys of every server: for `superRefine` of a schema with `serverShape`. */
export function checkServer(config: ServerConfig, context: Pick<z.RefinementCtx, "addIssue">): void {
  const refuse = (key: keyof ServerConfig, message: string): void => context.addIssue({ code: "custom", path: [key], message });
  const needs = (one: keyof ServerConfig, other: keyof ServerConfig): void => {
    if (config[one] !== undefined && config[other] === undefined) refuse(one, `needs ${other} too`);
  };
  needs("tlsCertificateFile", "tlsKeyFile");
  needs("tlsKeyFile", "tlsCertificateFile");
  needs("tlsClientCaFile", "tlsCertificateFile");
  needs("tlsServerName", "tlsServerCaFile");
  const names = config.callers.map(({ name }) => name);
  if (new Set(names).size !== names.length) refuse("callers", "two have the same name");
  const tokens = tokensOf(config).map((one) => one.token);
  if (config.callers.some(({ token: own }) => tokens.indexOf(own) !== tokens.lastIndexOf(own)))
    refuse("callers", "the token of one is also another's or a role's");
  if (config.callers.some(({ role }) => role === "client") && config.clientToken === undefined)
    refuse("callers", "one is a client: set clientToken too, with which servers call each other");
  const asksClients = config.clientToken !== undefined || config.tlsClientCaFile !== undefined;
  if (isWildcard(config.listenAddress) && !asksClients && !config.openToAll) {
    refuse("listenAddress", "every network reaches it and any caller is a client: set clientToken or tlsClientCaFile, or say openToAll");
  }
}

/** Of all interfaces: no part of the address is more than zeros. */
function isWildcard(address: string): boolean {
  const host = address.slice(0, address.lastIndexOf(":")).replace(/^\[(.*)\]$/, "$1");
  return host === "*" || /^(::ffff:)?[0:.]+$/i.test(host);
}

export interface RoleTokenConfig {
  readonly role: "client" | "coordinator" | "peer" | "operator";
  readonly token: string;
  readonly name?: string;
}

/** The tokens that are configured, as the rpc lib's authenticator takes them. */
export function tokensOf(config: ServerConfig): readonly RoleTokenConfig[] {
  const roles = ["client", "coordinator", "peer", "operator"] as const;
  const ofRoles = roles.flatMap((role) => {
    const configured = config[`${role}Token`];
    return configured === undefined ? [] : [{ role, token: configured }];
  });
  return [...ofRoles, ...config.callers];
}

export interface TlsConfig {
  readonly server?: { readonly certificate: string; readonly key: string; readonly clientCa?: string };
  readonly channel?: { readonly serverCa: string; readonly serverName?: string; readonly certificate?: string; readonly key?: string };
}

/** The PEM texts for the rpc lib's transport; undefined without TLS. In mutual TLS the server's certificate is its client's too. */
export function tlsOf(config: ServerConfig, readFile: (path: string) => string): TlsConfig | undefined {
  const read = (path: string | undefined): string | undefined => (path === undefined ? undefined : readFile(path));
  const certificate = read(config.tlsCertificateFile);
  const key = read(config.tlsKeyFile);
  const clientCa = read(config.tlsClientCaFile);
  const serverCa = read(config.tlsServerCaFile);
  const serverName = config.tlsServerName === undefined ? {} : { serverName: config.tlsServerName };
  const pair = certificate === undefined || key === undefined ? undefined : { certificate, key };
  if (pair === undefined && serverCa === undefined) return undefined;
  return {
    ...(pair === undefined ? {} : { server: { ...pair, ...(clientCa === undefined ? {} : { clientCa }) } }),
    ...(serverCa === undefined ? {} : { channel: { serverCa, ...serverName, ...pair } }),
  };
}
