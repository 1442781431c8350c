// Build the page: `npm ci` somewhere, then `node build.mjs --modules that/node_modules`. Writes ../page.html.

import { createHash } from "node:crypto";
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const here = dirname(fileURLToPath(import.meta.url));
const { values } = parseArgs({
  options: {
    modules: { type: "string", default: join(here, "node_modules") },
    out: { type: "string", default: join(here, "..", "page.html") },
  },
});
const modules = resolve(values.modules);
const { build } = createRequire(join(modules, "x.js"))("esbuild");

/** All files that make the page, in the order of their names; tests/lab repeats this in Python. */
function sources(folder = here) {
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.name !== "node_modules")
    .flatMap((entry) =>
      entry.isDirectory() ? sources(join(folder, entry.name)) : [relative(here, join(folder, entry.name))],
    )
    .sort();
}

function digest() {
  const hash = createHash("sha256");
  for (const name of sources()) hash.update(`${name}\n`).update(readFileSync(join(here, name)));
  return hash.digest("hex");
}

/** In the page, the engine is the script that the worker runs too. */
const shared = {
  name: "shared engine",
  setup(building) {
    building.onResolve({ filter: /\/engine$/ }, () => ({ path: "engine", namespace: "shared" }));
    building.onLoad({ filter: /.*/, namespace: "shared" }, () => ({ contents: "module.exports = lab" }));
  },
};

async function bundle(entry, options) {
  const made = await build({
    entryPoints: [join(here, entry)],
    bundle: true,
    write: false,
    format: "iife",
    target: "es2022",
    charset: "utf8",
    minify: true,
    legalComments: "none",
    ...options,
  });
  return made.outputFiles[0].text.replaceAll("</script", "<\\/script");
}

execFileSync(process.execPath, [join(modules, "typescript", "bin", "tsc"), "-p", here], { stdio: "inherit" });
const parts = {
  hash: digest(),
  style: readFileSync(join(here, "style.css"), "utf8"),
  engine: await bundle("engine/index.ts", { globalName: "lab" }),
  page: await bundle("page/main.ts", { plugins: [shared] }),
};
const page = readFileSync(join(here, "index.html"), "utf8").replace(/\{\{(\w+)\}\}/g, (_, name) => parts[name]);
writeFileSync(values.out, page);
console.log(`${relative(process.cwd(), values.out)}: ${(page.length / 1024).toFixed(0)} kB`);
