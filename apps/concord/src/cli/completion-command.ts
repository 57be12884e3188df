// `concord completion`: what shells need to complete verbs and options, made of the verbs themselves.
import { command, UsageError, type Command } from "./command.ts";

/** A verb as completion shows it. */
export interface Verb {
  readonly name: string;
  readonly summary: string;
  /** Without their dashes. */
  readonly options: readonly string[];
}

const HELP = `usage: concord completion bash | zsh | fish

Prints a script that completes verbs and options.

examples:
  source <(concord completion bash)                                      (in ~/.bashrc)
  source <(concord completion zsh)                                       (in ~/.zshrc, behind compinit)
  concord completion fish > ~/.config/fish/completions/concord.fish
`;

const SHELLS: Readonly<Record<string, (verbs: readonly Verb[]) => string>> = { bash, zsh, fish };

export function completionCommand(verbs: () => readonly Verb[]): Command {
  return command(
    { name: "completion", summary: "completion for bash, zsh or fish", help: HELP, options: {} },
    ({ positionals: [shell, ...more] }, { out }) => {
      const script = shell !== undefined && more.length === 0 && Object.hasOwn(SHELLS, shell) ? SHELLS[shell] : undefined;
      if (script === undefined) throw new UsageError(`give one of ${Object.keys(SHELLS).join(", ")}`);
      out(script(verbs()));
      return Promise.resolve(0);
    },
  );
}

function words({ options }: Verb): string {
  return options.map((option) => `--${option}`).join(" ");
}

function names(verbs: readonly Verb[]): string {
  return verbs.map(({ name }) => name).join(" ");
}

/** Where nothing fits, the shell's own completion goes on: of files. */
function bash(verbs: readonly Verb[]): string {
  return `_concord() {
  local words="${names(verbs)}"
  if [ "$COMP_CWORD" -gt 1 ]; then
    case "\${COMP_WORDS[1]}" in
${verbs.map((verb) => `      ${verb.name}) words="${words(verb)}" ;;`).join("\n")}
      *) words="" ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _concord concord`;
}

function zsh(verbs: readonly Verb[]): string {
  return `#compdef concord
_concord() {
  if (( CURRENT == 2 )); then
    local -a verbs=(${verbs.map(({ name, summary }) => `'${name}:${summary.replaceAll("'", "'\\''")}'`).join(" ")})
    _describe verb verbs
    return
  fi
  case "$words[2]" in
${verbs.map((verb) => `    ${verb.name}) compadd -- ${words(verb)} ;;`).join("\n")}
  esac
  _files
}
compdef _concord concord`;
}

function fish(verbs: readonly Verb[]): string {
  const lines = verbs.flatMap(({ name, summary, options }) => [
    `complete -c concord -n __fish_use_subcommand -a ${name} -d '${summary.replaceAll("'", "\\'")}'`,
    ...options.map((option) => `complete -c concord -n '__fish_seen_subcommand_from ${name}' -l ${option}`),
  ]);
  return lines.join("\n");
}
