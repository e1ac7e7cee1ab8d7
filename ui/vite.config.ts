// Builds the page into the package. File names have no hashes: the server sends ETags.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { defineConfig, type Plugin } from "vite";

const SOURCES = ["index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts"];

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

/** Writes the hashes of the sources beside the built files: a test compares them without Node. */
function sourceHashes(): Plugin {
  return {
    name: "source-hashes",
    generateBundle() {
      const lines = [...SOURCES, ...filesBelow("src"), ...filesBelow("public")]
        .sort()
        .map((path) => `${createHash("sha256").update(readFileSync(path)).digest("hex")}  ${path}\n`);
      this.emitFile({ type: "asset", fileName: "sources.sha256", source: lines.join("") });
    },
  };
}

export default defineConfig({
  base: "/ui/",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  plugins: [sourceHashes()],
  build: {
    outDir: "../kapiserver/apiserver/ui/built",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    license: { fileName: "licenses.md" },
    rollupOptions: {
      output: {
        entryFileNames: "app.js",
        chunkFileNames: "[name].js",
        assetFileNames: "[name][extname]",
      },
    },
  },
});
