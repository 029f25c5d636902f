#!/usr/bin/env bash
# Installs the coding clients that tests/clients drives, with npm, in the versions that the tests were written for.
#
#   tests/clients/install.sh [ROOT]      ROOT: $HOME/.cache/clients
#
# For another ROOT, or for clients that are there already, set CLIENTS_NPM (a folder with node_modules) and
# CLIENTS_NODE22 (a folder with `node`). What is installed already is left as it is.
set -euo pipefail

CLAUDE_CODE=@anthropic-ai/claude-code@2.1.330
OPENCODE=opencode-ai@1.18.33
QWEN_CODE=@qwen-code/qwen-code@0.24.4
CODEX=@openai/codex@0.169.0
NODE=22                                    # an older one makes npm choose much older clients

root=${1:-$HOME/.cache/clients}
command -v npm >/dev/null || { echo "no npm: the clients cannot be installed" >&2; exit 1; }

package_json() { [ -f "$1/package.json" ] || { mkdir -p "$1" && echo '{"private": true}' >"$1/package.json"; }; }

if ! [ -x "$root/node22/bin/node" ]; then
  package_json "$root/n22tmp"
  npm install --prefix "$root/n22tmp" --no-fund --no-audit "node@$NODE"
  mkdir -p "$root/node22/bin"
  cp "$root/n22tmp/node_modules/node/bin/node" "$root/node22/bin/node"
fi
export PATH="$root/node22/bin:$PATH"

missing=()
for program in claude:"$CLAUDE_CODE" opencode:"$OPENCODE" qwen:"$QWEN_CODE" codex:"$CODEX"; do
  [ -e "$root/npm/node_modules/.bin/${program%%:*}" ] || missing+=("${program#*:}")
done
if [ ${#missing[@]} -gt 0 ]; then
  package_json "$root/npm"
  npm install --prefix "$root/npm" --no-fund --no-audit "${missing[@]}"
fi
echo "clients: $root/npm/node_modules/.bin"
