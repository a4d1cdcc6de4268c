// Runs the reference server until stdin ends, and says where its streams are.
import { DurableStreamTestServer } from "@durable-streams/server"

const server = new DurableStreamTestServer({ port: 0, host: "127.0.0.1", longPollTimeout: 300 })
console.log(`streams ${await server.start()}/v1/stream`)
process.stdin.resume()
process.stdin.on("end", () => process.exit(0))
