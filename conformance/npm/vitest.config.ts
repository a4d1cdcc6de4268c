import { defineConfig } from "vitest/config"

// The tests talk to one server over loopback, so files run one after another
// and nothing is retried: a test that fails once is a finding.
export default defineConfig({
  test: {
    include: ["*.test.ts"],
    fileParallelism: false,
    retry: 0,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    watch: false,
  },
})
