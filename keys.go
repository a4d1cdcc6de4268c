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
// directory; it notices within a second. The new public key is published for ten
// minutes before it signs, so that receivers have it by then; with atOnce it signs now,
// as after a leak, and receivers that keep the key set fail until they ask again. The
// old public key stays published for 15 minutes after its last use, and tokens made
// before are taken for a day.
func RotateKeys(dir string, atOnce bool) (kid string, err error) {
	wait := webhook.Announce
	if atOnce {
		wait = 0
	}
	return webhook.Rotate(vfs.Default, keyFile(vfs.Default, dir), time.Now(), wait)
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
