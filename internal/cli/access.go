package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"durablestreams"
	"durablestreams/auth"
	"durablestreams/stream"
)

// accessOptions says who may do what; nil: everybody everything.
func (c *serveCommand) accessOptions() *auth.Options {
	var tokens *auth.JWT
	if c.JWTKeys != "" || c.JWTIssuer != "" || c.JWTAudience != "" {
		tokens = &auth.JWT{Keys: c.JWTKeys, Issuer: c.JWTIssuer, Audience: c.JWTAudience}
	}
	if c.AccessFile == "" && tokens == nil && !c.AccessHide { // who hides something believes that it is protected
		return nil
	}
	return &auth.Options{File: c.AccessFile, JWT: tokens, Hide: c.AccessHide}
}

// checkExposed refuses an address that other machines can reach if everybody there could
// do everything, unless that is wanted.
func (c *serveCommand) checkExposed(opts *durablestreams.Options, flag string, addr net.Addr) error {
	if opts.Access != nil || c.Insecure || loopback(addr) {
		return nil
	}
	return usageError{fmt.Errorf("%s: %s is reachable from other machines, and there is no access control: whoever reaches it could read, write and delete every stream; "+
		"give --access-file or --jwt-keys, or --insecure if something else keeps strangers out", flag, addr)}
}

// warnExposed says in the log what was asked for with --insecure. ln may be nil.
func (c *serveCommand) warnExposed(log *slog.Logger, opts *durablestreams.Options, flag string, ln net.Listener) {
	if ln == nil || opts.Access != nil || loopback(ln.Addr()) {
		return
	}
	log.Warn("this address is reachable from other machines and there is no access control: "+
		"whoever reaches it may read, write and delete every stream", flag, ln.Addr().String())
	if c.WebhookAllowLocal {
		log.Warn("with --webhook-allow-local they can also make this server send requests to services of this machine")
	}
}

// accessCommand is "ds access".
type accessCommand struct {
	Key accessKeyCommand `cmd:"" help:"Make an API key and add its line to an access file."`
	URL accessURLCommand `cmd:"" name:"url" help:"Make a stream's URL readable for a while for whoever has it."`
}

// accessKeyCommand is "ds access key".
type accessKeyCommand struct {
	File    string        `arg:"" help:"Access file. Made if it is not there."`
	Name    string        `arg:"" help:"Whose key it is, for people."`
	Grants  []string      `arg:"" help:"Rights and the paths they are for: read,append:orders/**. Rights: read, append, create, delete, subscribe, admin, all."`
	Expires time.Duration `placeholder:"720h" help:"How long the key counts. Default: until its line is taken out."`
}

// Help is the text below the summary.
func (accessKeyCommand) Help() string {
	return `Prints the key, which is nowhere else: the file has its hash. A running server takes the change by itself, within about a second.

Examples:

    ds access key access shop append,create:orders/**
    ds access key access viewer read:** --expires 24h`
}

// Run makes a key.
func (c *accessKeyCommand) Run(env *Env) error {
	var grants []auth.Grant
	for _, text := range c.Grants {
		g, err := auth.ParseGrant(text)
		if err != nil {
			return usageError{fmt.Errorf("%q: %w", text, err)}
		}
		grants = append(grants, g)
	}
	var expires time.Time
	if c.Expires != 0 {
		expires = time.Now().Add(c.Expires)
	}
	key, line, err := auth.NewKey(c.Name, grants, expires)
	if err != nil {
		return usageError{err}
	}
	f, err := os.OpenFile(c.File, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open the access file: %w", err)
	}
	_, err = fmt.Fprintln(f, line)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write the access file: %w", err)
	}
	_, err = fmt.Fprintln(env.Stdout, key)
	return err
}

// accessURLCommand is "ds access url".
type accessURLCommand struct {
	Dir  string        `arg:"" help:"Data directory. A server may be using it."`
	Path string        `arg:"" help:"Path of the stream, as it stands in URLs."`
	For  time.Duration `default:"15m" placeholder:"${default}" help:"How long the URL can be used."`
}

// Help is the text below the summary.
func (accessURLCommand) Help() string {
	return `Prints a query parameter that lets whoever has it read this stream, for EventSource and links, which cannot send a token.

Example:

    curl "http://127.0.0.1:8642/durable-streams/v1/stream/orders/7?$(ds access url ds-data orders/7)"`
}

// Run signs.
func (c *accessURLCommand) Run(env *Env) error {
	path, err := stream.ParsePath(c.Path)
	if err != nil {
		return usageError{err}
	}
	param, err := durablestreams.SignURL(c.Dir, path, c.For)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(env.Stdout, param)
	return err
}
