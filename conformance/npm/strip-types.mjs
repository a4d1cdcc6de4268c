// Makes name.mjs of each name.ts, for a Node.js that does not take the types away
// itself (22.18 does).
import { readFile, writeFile } from "node:fs/promises"
import { transformWithOxc } from "vite"

for (const file of process.argv.slice(2)) {
  const { code } = await transformWithOxc(await readFile(file, "utf8"), file, { target: "node20" })
  await writeFile(file.replace(/\.ts$/, ".mjs"), code)
}
