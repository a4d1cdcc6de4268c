// Runs the official suite against the server named by DS_URL. The suite's own
// command finds no tests below node_modules with vitest 4, hence this file.
//
// DS_URL  origin of a server whose streams live at /v1/stream/ and whose webhooks
//         may go to this machine
import { runConformanceTests } from "@durable-streams/server-conformance-tests"

const baseUrl = process.env.DS_URL
if (!baseUrl) throw new Error("DS_URL is not set; run: go test ./conformance")

runConformanceTests({
  baseUrl,
  subscriptions: true,
})
