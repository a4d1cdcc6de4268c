// Verifies a delivery as a receiver would, with what Node.js has: standard input is
// {"header", "body", "jwks"}, and the exit code tells the result.
import { createPublicKey, verify } from "node:crypto";
import { readFileSync } from "node:fs";

const { header, body, jwks } = JSON.parse(readFileSync(0, "utf8"));
const parts = Object.fromEntries(header.split(",").map((part) => part.split(/=(.*)/s)));
const key = jwks.keys.find((key) => key.kid === parts.kid);
const signed = Buffer.concat([Buffer.from(parts.t + "."), Buffer.from(body, "base64")]);
const good = key !== undefined && verify(null, signed, createPublicKey({ key, format: "jwk" }), Buffer.from(parts.ed25519, "base64url"));
process.exit(good ? 0 : 1);
