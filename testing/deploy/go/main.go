// Renders what deploy/ and docker/ hold by the libraries of the tools that users have, as JSON.
//
//	render helm CHART_FOLDER VALUES_FILE   the chart's documents, as `helm template concord CHART --namespace concord --values FILE`
//	render compose FILE                    the project, as `docker compose --file FILE config`
//	render actions FILE...                 what actionlint finds in workflows of GitHub Actions, a line each
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/cli"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/rhysd/actionlint"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 3 && args[0] == "helm" {
		return renderChart(args[1], args[2])
	}
	if len(args) == 2 && args[0] == "compose" {
		return renderCompose(args[1])
	}
	if len(args) > 1 && args[0] == "actions" {
		return lintWorkflows(args[1:])
	}
	return errors.New("usage: render helm CHART_FOLDER VALUES_FILE | render compose FILE | render actions FILE...")
}

// Scripts inside workflows are checked, too, when `shellcheck` is on the PATH.
func lintWorkflows(files []string) error {
	linter, err := actionlint.NewLinter(io.Discard, &actionlint.LinterOptions{Shellcheck: "shellcheck"})
	if err != nil {
		return err
	}
	findings, err := linter.LintFiles(files, nil)
	if err != nil {
		return err
	}
	lines := make([]string, 0, len(findings))
	for _, finding := range findings {
		lines = append(lines, finding.Error())
	}
	return json.NewEncoder(os.Stdout).Encode(lines)
}

// Values are checked by the chart's schema; a value that does not exist is an error.
func renderChart(folder, valuesFile string) error {
	chart, err := loader.Load(folder)
	if err != nil {
		return err
	}
	if err := chart.Validate(); err != nil {
		return err
	}
	given, err := chartutil.ReadValuesFile(valuesFile)
	if err != nil {
		return err
	}
	release := chartutil.ReleaseOptions{Name: "concord", Namespace: "concord", Revision: 1, IsInstall: true}
	values, err := chartutil.ToRenderValues(chart, given, release, chartutil.DefaultCapabilities)
	if err != nil {
		return err
	}
	files, err := engine.Engine{Strict: true}.Render(chart, values)
	if err != nil {
		return err
	}
	documents := []json.RawMessage{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if name == chart.Name()+"/templates/NOTES.txt" {
			continue
		}
		found, err := documentsOf(files[name])
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		documents = append(documents, found...)
	}
	return json.NewEncoder(os.Stdout).Encode(documents)
}

func documentsOf(text string) ([]json.RawMessage, error) {
	var documents []json.RawMessage
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, err
		}
		// A key that stands twice is an error.
		asJSON, err := yaml.YAMLToJSONStrict(document)
		if err != nil {
			return nil, err
		}
		if bytes.Equal(asJSON, []byte("null")) {
			continue
		}
		if err := checkMonitor(asJSON); err != nil {
			return nil, err
		}
		documents = append(documents, asJSON)
	}
}

// A ServiceMonitor is no kind of Kubernetes' own: its operator's types say what it may have.
func checkMonitor(document []byte) error {
	var kind struct{ Kind string }
	if err := json.Unmarshal(document, &kind); err != nil || kind.Kind != monitoring.ServiceMonitorsKind {
		return err
	}
	var monitor monitoring.ServiceMonitor
	return yaml.UnmarshalStrict(document, &monitor)
}

// Schema, interpolation, merge keys, references to services, volumes and networks.
func renderCompose(file string) error {
	options, err := cli.NewProjectOptions([]string{file}, cli.WithOsEnv, cli.WithProfiles([]string{"*"}))
	if err != nil {
		return err
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(project)
}
