// Command gojq evaluates expressions of jq, as kwok does.
//
// Each line of its input is a JSON list of an expression and a value. Each line of its output is an
// object: `results`, or `error` with the step that failed, "compile" or "evaluate".
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/itchyny/gojq"
)

func evaluate(source string, value any) map[string]any {
	query, err := gojq.Parse(source)
	if err != nil {
		return map[string]any{"error": "compile", "message": err.Error()}
	}
	code, err := gojq.Compile(query)
	if err != nil {
		return map[string]any{"error": "compile", "message": err.Error()}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	results := []any{}
	for iterator := code.RunWithContext(ctx, value); ; {
		result, ok := iterator.Next()
		if !ok {
			return map[string]any{"results": results}
		}
		if err, ok := result.(error); ok {
			return map[string]any{"error": "evaluate", "message": err.Error()}
		}
		results = append(results, result)
	}
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var question [2]any
		if err := json.Unmarshal(lines.Bytes(), &question); err != nil {
			panic(err)
		}
		line, err := gojq.Marshal(evaluate(question[0].(string), question[1]))
		if err != nil {
			panic(err)
		}
		fmt.Println(string(line))
	}
}
