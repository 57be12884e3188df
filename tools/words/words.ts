// The words that docs/style.md replaces by the field's own. A pattern reads the line in plain words: identifiers are split at capitals, hyphens
// and underscores, so `/kill points?/` finds killPoint, KILL_POINT and "kill-points.ts".

export interface Word {
  readonly name: string;
  readonly instead: string;
  /** Global; what the line in plain words must not have. */
  readonly pattern: RegExp;
  /** Paths where the word has the meaning that is replaced; everywhere when not given. */
  readonly within?: RegExp;
}

/** A place where a word stays: what is cut from the line as written before the patterns read it. */
export interface Allowed {
  readonly text: RegExp;
  readonly within?: RegExp;
  readonly why: string;
}

const DEDUP = /^(apps\/dedup-worker|libs\/dedup|protos\/concord\/dedup|docs\/design\/messages)/;
const OBJECTS =
  /^(apps\/object-gateway|libs\/objects|libs\/adapter-filesystem|libs\/ports\/src\/object-data|protos\/concord\/object|docs\/)/;
const BLOBS = new RegExp(`${OBJECTS.source}|^libs/(port-contracts|adapter-rados)/`);
const GROUP_LOG =
  /^(apps\/(txn-coordinator|storage-proxy)|libs\/(group-log|transactions|ports|port-contracts|adapter-storage-proxy|client))\//;
const SIGNATURES_AND_LEASES = /^(libs\/s3\/src\/signature|libs\/(objects|adapter-filesystem)\/src|apps\/[^/]+\/src\/(ids\/)?worker-lease)/;

export const WORDS: readonly Word[] = [
  { name: "room", instead: "module, layer; in tests fixture", pattern: /\brooms\b|\broom\.[a-z#]/g },
  { name: "house", instead: "module, layer", pattern: /\bhouse\b/g },
  { name: "planted", instead: "seeded (fault, violation)", pattern: /\bplant(s|ed|ing)?\b/g },
  { name: "kill point", instead: "failpoint", pattern: /\bkill points?\b/g },
  { name: "people for code", instead: "the component by its name", pattern: /\b(nobody|somebody|whoever|everybody|anybody)\b/g },
  { name: "can not", instead: "cannot", pattern: /\bcan not\b/g },
  { name: "is told", instead: "an active verb: gets, receives, is refused", pattern: /\b(is|are|was|were|be|been|being) told\b/g },
  { name: "stands beside", instead: "belongs to, is in, accompanies", pattern: /\bstand(s|ing)? beside\b/g },
  { name: "set aside", instead: "quarantine", pattern: /\bset(s|ting)? aside\b/g },
  { name: "garbage row", instead: "GC entry", pattern: /\bgarbage rows?\b/g },
  { name: "chance", instead: "randomness", pattern: /\bchances?\b/g },
  { name: "donor", instead: "source replica", pattern: /\bdonors?\b/g },
  { name: "speaks", instead: "record, name, support", pattern: /\bspeaks?\b/g },
  { name: "look after home", instead: "probe the preferred node", pattern: /\blook(s|ed|ing)? after\b/g },
  { name: "in doubt", instead: "indeterminate, unresolved", pattern: /\bin doubt\b/g },
  { name: "applied mark", instead: "watermark", pattern: /\bapplied marks?\b/g, within: GROUP_LOG },
  { name: "verdict", instead: "result, status", pattern: /\bverdicts?\b/g, within: DEDUP },
  { name: "sealed run", instead: "immutable segment", pattern: /\bseal(s|ed|ing)?\b/g, within: DEDUP },
  { name: "generation window", instead: "segmented window", pattern: /\bgenerations? window\b|\bwindow in generations\b/g },
  { name: "cycle", instead: "processing loop", pattern: /\bcycles?\b/g, within: DEDUP },
  {
    name: "way",
    instead: "data path",
    pattern: /\b(four|data|whole) ways?\b|\bway of (a|the) (page|message|batch|request|object|transaction)s?\b/g,
  },
  { name: "piece", instead: "blob", pattern: /\bpieces?\b/g, within: BLOBS },
  { name: "give up", instead: "abandon", pattern: /\b(gives?|gave|given|giving) up\b/g, within: OBJECTS },
  { name: "let go", instead: "release", pattern: /\b(lets?|letting) (it |them )?go\b/g },
  {
    name: "settle a name",
    instead: "resolve",
    pattern: /\bsettl(es?|ed|ing)\b/g,
    within: /^(libs\/objects|libs\/port-contracts\/src\/object)/,
  },
  {
    name: "hold back",
    instead: "queue for resolution",
    pattern: /\b(holds?|held|holding) back\b/g,
    within: /^(libs\/objects|apps\/object-gateway)/,
  },
  { name: "claim", instead: "signed fields; acquire", pattern: /\b(read )?claim(s|ed|ing)?\b(?! \()/g, within: SIGNATURES_AND_LEASES },
];

/** Bags of dependencies: one word, Context, for what runs and Options for what constructs. */
export const BAG =
  /^(?:export )?(?:interface|type|class) (\w*(?:Parts|Rooms?|Wiring|Surroundings|Sources)|\w+(?:Coordinator|Proxy|Gateway|Worker)Host)\b/;

export const ALLOWED: readonly Allowed[] = [
  { text: /(CONCORD_|\$\{ENV_PREFIX\})KILL_POINT/g, why: "an environment variable of released programs" },
  { text: /set_aside_ms|\bsetAsideMs\b/g, why: "a field of concord.storage.v1" },
  {
    text: /\bVERDICT_[A-Z_]*|\benum Verdict\b|\bVerdict verdict = 1|\bVERDICTS?\b(?=\[)|\bverdict\b(?=\??:|"\])|\.verdict\b|"verdict"/g,
    why: "a field of concord.dedup.v1 and a metric label",
  },
  { text: /dedup:seal(ing|ed)\b|"seal(ing|ed)"/g, why: "failpoints of dedup" },
  { text: /\bsealRecord\b|\bsealed records?\b/g, why: "a function of codec" },
  { text: /objects?_(commits_)?in_doubt\w*|uint32 in_doubt = 6/g, why: "metrics and a field of concord.object.v1" },
  {
    text: /\binDoubt\b/g,
    within: /^(apps\/object-gateway\/src\/|testing\/(simulate\/src\/scenarios\/object|constellation\/src\/object-message-load)\.ts)/,
    why: "a field of concord.object.v1",
  },
  { text: /objects_recovered_pieces_total|uint64 pieces = 1/g, why: "a metric and a field of concord.object.v1" },
  { text: /\bpieces(?=:|\b.*;)/g, within: /^apps\/object-gateway\/src\/rpc\//, why: "a field of concord.object.v1" },
  { text: /\.pieces\b|\bpieces: bigint/g, within: /^apps\/object-gateway\/src\//, why: "a field of concord.object.v1" },
  { text: /"pieces"|\bpieces\//g, within: /^(libs\/adapter-filesystem|apps\/object-gateway|docs)\//, why: "a folder on disk" },
  { text: /\bPIECE_EXISTS\b|"pieceBytes"/g, why: "an error code; the name of a limit in error metadata" },
  { text: /\bpiece:(created|written|synced|sealed|removed)\b|`piece:`|\bsegment:claimed\b|\bafter-epoch-claimed\b/g, why: "failpoints" },
  {
    text: /\bplanted: \{ type|values\.planted/g,
    within: /^testing\/simulate\/src\/simulate\.ts$/,
    why: "the first name of --seeded-faults",
  },
  { text: /\.chance\(|\bchance(: )?\(p(robability)?\b/g, why: "a draw that is true with probability p" },
  { text: /\bchance (to|of)\b/g, why: "an opportunity" },
  { text: /\ball ?settled\b/gi, why: "Promise.allSettled" },
  {
    text: /\b(SelectedParts|NamedParts|GuidParts|CanonicalParts|ForgetsParts|StopsAt1024Parts)\b/g,
    why: "parts of an upload, an id or a request",
  },
];
