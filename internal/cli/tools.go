package cli

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
)

// checkCommand is "ds check".
type checkCommand struct {
	Dir    string `arg:"" help:"Data directory. No server may be using it."`
	Repair bool   `help:"Cut off and set aside what is damaged, so that a server can start. What was set aside is reported."`
	JSON   bool   `name:"json" help:"Report as one JSON object."`
}

// Run checks.
func (c *checkCommand) Run(env *Env) error { return errors.New("not there yet") }

// inspectCommand is "ds inspect".
type inspectCommand struct {
	Dir  string `arg:"" help:"Data directory. No server may be using it."`
	JSON bool   `name:"json" help:"One JSON object a line."`
}

// Run inspects.
func (c *inspectCommand) Run(env *Env) error { return errors.New("not there yet") }

// versionCommand is "ds version".
type versionCommand struct{}

// Run prints the version that the build was stamped with.
func (versionCommand) Run(env *Env) error {
	version := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = info.Main.Version
	}
	_, err := fmt.Fprintf(env.Stdout, "ds %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
