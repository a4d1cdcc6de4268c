package durablestreams

import (
	"fmt"
	"os"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/internal/webhook"
)

// RotateKeys replaces the secrets of the data directory dir that sign webhooks and
// tokens, and gives the id of the new signing key. A server may be using the
// directory; it notices within a second. The old public key stays published for 15
// minutes, and tokens made before are taken for a day.
func RotateKeys(dir string) (kid string, err error) {
	return webhook.Rotate(vfs.Default, keyFile(vfs.Default, dir), time.Now())
}

// PublicKeys gives the JWK Set with which receivers verify the webhooks of the data
// directory dir. A server may be using it. It is an error if there are no keys yet.
func PublicKeys(dir string) (jwks []byte, err error) {
	file := keyFile(vfs.Default, dir)
	if _, err := os.Stat(file); err != nil {
		return nil, fmt.Errorf("there are no webhook keys: %w", err)
	}
	keys, err := webhook.OpenKeys(vfs.Default, file, nil)
	if err != nil {
		return nil, err
	}
	return keys.JWKS(time.Now())
}
