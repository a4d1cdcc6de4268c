package cli

import (
	"errors"
	"fmt"
	"os"

	"durablestreams"
)

// keysCommand is "ds keys".
type keysCommand struct {
	Show   keysShowCommand   `cmd:"" help:"Show the public keys."`
	Rotate keysRotateCommand `cmd:"" help:"Replace the keys."`
}

// keysShowCommand is "ds keys show".
type keysShowCommand struct {
	Dir string `arg:"" help:"Data directory. A server may be using it."`
}

// Help is the text below the summary.
func (keysShowCommand) Help() string {
	return `Shows the JWK Set that the server publishes at <base path>/v1/stream/__ds/jwks.json. The secrets are never shown.

Example:

    ds keys show ds-data`
}

// Run shows.
func (c *keysShowCommand) Run(env *Env) error {
	jwks, err := durablestreams.PublicKeys(c.Dir)
	if err != nil {
		return keysError(c.Dir, err)
	}
	_, err = fmt.Fprintf(env.Stdout, "%s\n", jwks)
	return err
}

// keysRotateCommand is "ds keys rotate".
type keysRotateCommand struct {
	Dir string `arg:"" help:"Data directory. A server may be using it."`
	Now bool   `help:"Sign with the new key at once, for example because the old one is known to others. Receivers that keep the key set refuse what it signs until they ask for the set again."`
}

// Help is the text below the summary.
func (keysRotateCommand) Help() string {
	return `Makes new secrets for webhooks and tokens and prints the id of the new signing key. A running server publishes
its public key within a second and signs with it 10 minutes later, when receivers that keep the key set know it as well.
The old public key stays published for 15 minutes more, so that receivers can verify what was signed with it. New callback
and claim tokens are made with the new secret at once; those that are out are taken for a day.

Example:

    ds keys rotate ds-data`
}

// Run replaces.
func (c *keysRotateCommand) Run(env *Env) error {
	kid, err := durablestreams.RotateKeys(c.Dir, c.Now)
	if err != nil {
		return keysError(c.Dir, err)
	}
	_, err = fmt.Fprintf(env.Stdout, "%s\n", kid)
	return err
}

// keysError says what it means if there are no keys.
func keysError(dir string, err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s has no webhook keys: a server makes them when it needs them for the first time", dir)
	}
	return openError(dir, err)
}
