package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/client"
	"durablestreams/internal/backup"
	"durablestreams/internal/version"
	"durablestreams/stream"
)

// backupCommand is "ds backup".
type backupCommand struct {
	Make   backupMakeCommand   `cmd:"" default:"withargs" help:"Back a server up. \"ds backup DEST\" is the same."`
	List   backupListCommand   `cmd:"" help:"Show what backups there are."`
	Verify backupVerifyCommand `cmd:"" help:"Read all backups and compare them with their checksums."`
	Prune  backupPruneCommand  `cmd:"" help:"Remove old backups."`
}

// backupMakeCommand is "ds backup make", and "ds backup".
type backupMakeCommand struct {
	Dest     string `arg:"" help:"Directory that keeps the backups. It is made if it is not there, and may have earlier ones: what has not changed is fetched and kept once."`
	AdminURL string `group:"server" name:"admin-url" default:"http://127.0.0.1:8643" placeholder:"${default}" help:"Admin address of the server."`
	Token    string `group:"server" secret:"" placeholder:"TOKEN" help:"Bearer token, where access is controlled: of somebody who may operate all streams."`
	Offline  string `placeholder:"DIR" help:"Back up this data directory, which no server may be using, instead of asking one."`
	Full     bool   `help:"Fetch every file, also those that DEST has: what is damaged there is replaced."`
	JSON     bool   `name:"json" help:"Report as a JSON object."`
}

// Help is the text below the summary.
func (backupMakeCommand) Help() string {
	return `Copies everything that the server has acknowledged when it is asked, while it goes on: streams, subscriptions and keys.
The backup is there, durably, when the command ends with code 0; interrupted at any time it leaves the earlier ones as they are.

Examples:

    ds backup /backups
    ds backup /backups --admin-url http://10.0.0.5:8643
    ds backup make /backups --full
    ds backup /backups --offline ds-data     # of a server that is stopped`
}

// backupReport is a backup in the output of --json.
type backupReport struct {
	Number     int       `json:"backup"`
	Manifest   string    `json:"manifest"`
	Time       time.Time `json:"time"`
	LastRecord uint64    `json:"last_record"`
	Files      int       `json:"files"`
	Bytes      int64     `json:"bytes"`
	SentFiles  *int      `json:"sent_files,omitempty"`
	SentBytes  *int64    `json:"sent_bytes,omitempty"`
}

func newBackupReport(e backup.Entry) backupReport {
	return backupReport{Number: e.Number, Manifest: e.Name, Time: e.Manifest.Time, LastRecord: e.Manifest.LastRecord,
		Files: len(e.Manifest.Files), Bytes: e.Manifest.Bytes()}
}

// Run backs up.
func (c *backupMakeCommand) Run(ctx context.Context, env *Env) (err error) {
	d, err := backup.Open(vfs.Default, c.Dest)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	var have []backup.File
	if !c.Full {
		if have, err = d.Have(); err != nil {
			return err
		}
	}
	from, err := c.source(ctx, have)
	if err != nil {
		return err
	}
	taken, err := d.Take(from)
	if err := errors.Join(err, from.Close()); err != nil {
		return err
	}
	r := newBackupReport(taken.Entry)
	r.SentFiles, r.SentBytes = &taken.Files, &taken.Bytes
	if c.JSON {
		return writeJSON(env.Stdout, r)
	}
	_, err = fmt.Fprintf(env.Stdout, "backup    %d, of %s, up to record %d\nfiles     %d with %d bytes\nfetched   %d with %d bytes\n",
		r.Number, r.Time.Format(time.RFC3339), r.LastRecord, r.Files, r.Bytes, taken.Files, taken.Bytes)
	return err
}

// source gives the tar of a backup.
func (c *backupMakeCommand) source(ctx context.Context, have []backup.File) (io.ReadCloser, error) {
	if c.Offline != "" {
		r, err := backup.Offline(ctx, vfs.Default, c.Offline, have, version.Read().Version)
		return r, openError(c.Offline, err)
	}
	const op = "back up"
	body, err := json.Marshal(map[string]any{"have": have})
	if err != nil {
		return nil, err
	}
	target := strings.TrimSuffix(c.AdminURL, "/") + "/api/v1/backup"
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return nil, usageError{fmt.Errorf("--admin-url: %w", err)}
	}
	r.Header.Set("Content-Type", "application/json")
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, &client.NetworkError{Op: op, URL: target, Err: errors.Unwrap(err)}
	}
	if answer.StatusCode == http.StatusOK {
		return answer.Body, nil
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxReason))
	if err != nil {
		return nil, &client.NetworkError{Op: op, URL: target, Err: err}
	}
	return nil, refusalOf(op, target, answer.StatusCode, text)
}

// refusalOf reads an answer of the API for operators that is an error.
func refusalOf(op, target string, status int, text []byte) error {
	var said struct {
		Error struct{ Code, Message string }
	}
	if err := json.Unmarshal(text, &said); err != nil {
		said.Error.Message = strings.TrimSpace(string(text))
	}
	return &client.Error{Op: op, URL: target, Status: status, Kind: stream.Kind(said.Error.Code), Code: printable(said.Error.Code), Message: printable(said.Error.Message)}
}

// backupListCommand is "ds backup list".
type backupListCommand struct {
	Dest string `arg:"" help:"Directory that keeps the backups."`
	JSON bool   `name:"json" help:"One JSON object a line."`
}

// Help is the text below the summary.
func (backupListCommand) Help() string {
	return `Shows the backups from the oldest to the newest: number, time, last record of the journal, files and bytes. What several
have in common is counted for each.

Example:

    ds backup list /backups`
}

// Run lists.
func (c *backupListCommand) Run(env *Env) error {
	d, err := backup.Look(vfs.Default, c.Dest)
	if err != nil {
		return err
	}
	list, err := d.List()
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range list {
		if e.Err != nil {
			errs = append(errs, e.Err)
			continue
		}
		r := newBackupReport(e)
		if c.JSON {
			err = writeLine(env.Stdout, r)
		} else {
			_, err = fmt.Fprintf(env.Stdout, "%-6d %s  up to record %-10d %4d files %12d bytes\n", r.Number, r.Time.Format(time.RFC3339), r.LastRecord, r.Files, r.Bytes)
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

// backupVerifyCommand is "ds backup verify".
type backupVerifyCommand struct {
	Dest string `arg:"" help:"Directory that keeps the backups."`
	JSON bool   `name:"json" help:"Report as a JSON object."`
}

// Help is the text below the summary.
func (backupVerifyCommand) Help() string {
	return `Reads every file of every backup. The exit code is 0 if all are as they were written, 1 if something is damaged or missing:
it is named, with the numbers of the backups that need it. What the server still has, "ds backup --full" replaces.

Example:

    ds backup verify /backups`
}

// verifyReport is what --json gives.
type verifyReport struct {
	Files  int             `json:"files"`
	Sound  bool            `json:"sound"`
	Damage []backup.Damage `json:"damage"`
}

// Run verifies.
func (c *backupVerifyCommand) Run(env *Env) error {
	d, err := backup.Look(vfs.Default, c.Dest)
	if err != nil {
		return err
	}
	damage, files, err := d.Verify()
	if err != nil {
		return err
	}
	r := verifyReport{Files: files, Sound: len(damage) == 0, Damage: append([]backup.Damage{}, damage...)}
	if c.JSON {
		err = writeJSON(env.Stdout, r)
	} else {
		err = r.writeText(env.Stdout)
	}
	if err == nil && !r.Sound {
		return errQuiet
	}
	return err
}

func (r *verifyReport) writeText(w io.Writer) error {
	for _, d := range r.Damage {
		if _, err := fmt.Fprintf(w, "PROBLEM   %s: %s; it is needed by backup %s\n", d.Path, d.What, strings.Trim(fmt.Sprint(d.Backups), "[]")); err != nil {
			return err
		}
	}
	end := "sound"
	if !r.Sound {
		end = fmt.Sprintf("%d problems", len(r.Damage))
	}
	_, err := fmt.Fprintf(w, "files     %d\n%s\n", r.Files, end)
	return err
}

// backupPruneCommand is "ds backup prune".
type backupPruneCommand struct {
	Dest string `arg:"" help:"Directory that keeps the backups."`
	Keep int    `required:"" placeholder:"N" help:"How many of the newest backups stay, 1 or more."`
	JSON bool   `name:"json" help:"Report as a JSON object."`
}

// Help is the text below the summary.
func (backupPruneCommand) Help() string {
	return `Removes all backups but the newest ones, and the files that none of those needs. Nothing is removed if one of those that are
to stay lacks a file. It reads none of them: verify them first.

Example:

    ds backup prune /backups --keep 7`
}

// Run prunes.
func (c *backupPruneCommand) Run(env *Env) (err error) {
	if c.Keep < 1 {
		return usageError{errors.New("--keep: want 1 or more")}
	}
	if _, err := backup.Look(vfs.Default, c.Dest); err != nil {
		return err
	}
	d, err := backup.Open(vfs.Default, c.Dest)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	p, err := d.Prune(c.Keep)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(env.Stdout, map[string]any{"backups": len(p.Backups), "files": p.Files, "bytes": p.Bytes})
	}
	_, err = fmt.Fprintf(env.Stdout, "removed   %d backups, %d files with %d bytes\n", len(p.Backups), p.Files, p.Bytes)
	return err
}

// restoreCommand is "ds restore".
type restoreCommand struct {
	Dest     string `arg:"" help:"Directory that keeps the backups, or a whole backup as a tar (GET /api/v1/backup)."`
	Dir      string `arg:"" help:"Data directory to be made. It must be empty or not be there."`
	Manifest int    `placeholder:"N" help:"Number of the backup. Default: the newest."`
	JSON     bool   `name:"json" help:"Report as a JSON object, as ds check does."`
}

// Help is the text below the summary.
func (restoreCommand) Help() string {
	return `Makes a data directory of a backup and then verifies it as "ds check" does. Every file is compared with its checksum while
it is written. Until all is durable no server starts on the directory: what was interrupted is removed and begun again.

Examples:

    ds restore /backups ds-data
    ds restore /backups ds-data --manifest 12`
}

// Run restores.
func (c *restoreCommand) Run(env *Env) error {
	info, err := os.Stat(c.Dest)
	if err != nil {
		return err
	}
	if info.Mode().IsRegular() {
		err = c.fromTar()
	} else {
		err = c.fromDestination()
	}
	if err != nil {
		return err
	}
	check := checkCommand{Dir: c.Dir, JSON: c.JSON}
	return check.Run(env)
}

func (c *restoreCommand) fromTar() error {
	if c.Manifest != 0 {
		return usageError{errors.New("--manifest: a tar is one backup")}
	}
	f, err := os.Open(c.Dest)
	if err != nil {
		return err
	}
	_, err = backup.RestoreTar(vfs.Default, f, c.Dir)
	return errors.Join(err, f.Close())
}

func (c *restoreCommand) fromDestination() error {
	d, err := backup.Look(vfs.Default, c.Dest)
	if err != nil {
		return err
	}
	e, err := d.Find(c.Manifest)
	if err != nil {
		return err
	}
	return d.Restore(e, c.Dir)
}
