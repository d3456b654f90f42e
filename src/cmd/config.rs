//! Where options come from: the command line, the environment, a file, and what is built in, in this order.
//!
//! The file is YAML, a mapping of the options' names to values. Knows no option by name: which there are, and which values
//! they take, is what the command line says. Answers to `--config` of Kubernetes' programs.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::builder::ValueParser;
use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use serde::Serialize;
use serde_json::Value;

use crate::manifest::{Setting, nearest, settings};

/// The option that names the file.
const FILE: &str = "config";

/// Why a command is not run.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    /// What the command line says, which may also be a page of help.
    #[error(transparent)]
    Line(#[from] clap::Error),
    /// What is wrong with the file.
    #[error("{0}")]
    File(String),
}

/// What an option is, and who says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Effective {
    value: String,
    source: &'static str,
}

/// All options of a command that have a value, by name.
pub(super) type Configuration = BTreeMap<String, Effective>;

/// Reads options from all places.
pub(super) fn read(
    command: &Command,
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<(ArgMatches, Configuration), Refused> {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    let said = command.clone().try_get_matches_from(&arguments)?;
    let Some((name, options)) = said.subcommand() else { return Ok((said, Configuration::new())) };
    let mut command = command.clone();
    command.build();
    let Some(chosen) = command.find_subcommand(name) else { return Ok((said, Configuration::new())) };
    let Some(file) = options.get_one::<PathBuf>(FILE) else {
        let all = effective(chosen, options, &[]);
        return Ok((said, all));
    };
    let found = settings(file).map_err(|error| Refused::File(error.to_string()))?;
    for setting in &found {
        let option = option(chosen, setting).map_err(Refused::File)?;
        let given = given(option, setting).map_err(Refused::File)?;
        let id = option.get_id().as_str();
        if matches!(options.value_source(id), None | Some(ValueSource::DefaultValue)) {
            arguments.extend(given);
        }
    }
    let read =
        command.clone().try_get_matches_from(&arguments).map_err(|error| blame(&error, &found, file))?;
    let all = read.subcommand().map(|(_, now)| effective(chosen, now, &overruled(chosen, options, &found)));
    let all = all.unwrap_or_default();
    Ok((read, all))
}

/// The settings that count: those of which neither the command line nor the environment says anything.
fn overruled(chosen: &Command, options: &ArgMatches, found: &[Setting]) -> Vec<String> {
    let counts = |setting: &&Setting| {
        let known = chosen.get_arguments().find(|option| option.get_long() == Some(&setting.name));
        let source = known.and_then(|option| options.value_source(option.get_id().as_str()));
        matches!(source, None | Some(ValueSource::DefaultValue))
    };
    found.iter().filter(counts).map(|setting| setting.name.clone()).collect()
}

/// The option that a setting is about.
fn option<'a>(chosen: &'a Command, setting: &Setting) -> Result<&'a Arg, String> {
    let options = chosen.get_arguments().filter(|option| !is_about_the_program(option));
    let known: Vec<(&str, &Arg)> = options.filter_map(|option| Some((option.get_long()?, option))).collect();
    if let Some((_, option)) = known.iter().find(|(name, _)| *name == setting.name) {
        return Ok(*option);
    }
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    let meant = nearest(setting.name.trim_start_matches('-'), &names);
    let meant = meant.map_or_else(String::new, |meant| format!("; {meant} was probably meant"));
    let command = chosen.get_name();
    Err(setting.problem(format!("pvbind {command} has no such option{meant}")).to_string())
}

/// Help, and where the file is: no settings.
fn is_about_the_program(option: &Arg) -> bool {
    matches!(
        option.get_action(),
        ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
    ) || option.get_long() == Some(FILE)
}

/// What a setting would be on the command line; nothing for what is not switched on.
fn given(option: &Arg, setting: &Setting) -> Result<Vec<OsString>, String> {
    let wrong = |wanted: &str| {
        let what = match &setting.value {
            Value::Null => "is null".to_owned(),
            other => format!("is {other}"),
        };
        Err(setting.problem(format!("{what}; {wanted}")).to_string())
    };
    let name = &setting.name;
    let switch = matches!(option.get_action(), ArgAction::SetTrue);
    let text = match (wanted(option), &setting.value) {
        (Wanted::Truth, Value::Bool(yes)) if switch => {
            return Ok(if *yes { vec![format!("--{name}").into()] } else { Vec::new() });
        }
        (Wanted::Truth, Value::Bool(yes)) => yes.to_string(),
        (Wanted::Truth, _) => return wrong("write true or false"),
        (Wanted::Number, Value::Number(number)) => number.to_string(),
        (Wanted::Number, _) => return wrong("write a number, without quotes"),
        (Wanted::Text, Value::String(text)) => text.clone(),
        (Wanted::Text, Value::Array(items)) if matches!(option.get_action(), ArgAction::Append) => {
            let texts = items.iter().map(Value::as_str).collect::<Option<Vec<_>>>();
            let Some(texts) = texts else { return wrong("write a list of strings") };
            return Ok(texts.into_iter().map(|text| format!("--{name}={text}").into()).collect());
        }
        (Wanted::Text, _) => return wrong("write a string; numbers and true or false need quotes"),
    };
    Ok(vec![format!("--{name}={text}").into()])
}

/// What a value has to be in the file.
enum Wanted {
    Truth,
    Number,
    Text,
}

fn wanted(option: &Arg) -> Wanted {
    let parser: &ValueParser = option.get_value_parser();
    let is = |types: &[TypeId]| types.iter().any(|one| parser.type_id() == *one);
    if is(&[TypeId::of::<bool>()]) {
        Wanted::Truth
    } else if is(&[TypeId::of::<u16>(), TypeId::of::<u32>(), TypeId::of::<i64>(), TypeId::of::<f64>()]) {
        Wanted::Number
    } else {
        Wanted::Text
    }
}

/// Puts an error where it comes from: without the file there was none.
fn blame(error: &clap::Error, found: &[Setting], file: &Path) -> Refused {
    let text = error.to_string();
    let message = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
    let option = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(option)) => option.as_str(),
        Some(ContextValue::Strings(options)) => options.first().map_or("", String::as_str),
        _ => "",
    };
    let name = option.trim_start_matches('-').split([' ', '=', '[']).next().unwrap_or_default();
    match found.iter().find(|setting| setting.name == name) {
        Some(setting) => Refused::File(setting.problem(message).to_string()),
        None => Refused::File(format!("{}: {message}", file.display())),
    }
}

/// What all options are in the end.
fn effective(chosen: &Command, options: &ArgMatches, of_file: &[String]) -> Configuration {
    let all = chosen.get_arguments().filter(|option| !is_about_the_program(option));
    let all = all.filter_map(|option| {
        let (name, id) = (option.get_long()?, option.get_id().as_str());
        let values = options.get_raw(id)?;
        let value = values.map(|value| value.to_string_lossy()).collect::<Vec<_>>().join(",");
        let source = match options.value_source(id)? {
            ValueSource::EnvVariable => "environment",
            ValueSource::CommandLine if of_file.iter().any(|set| set == name) => "file",
            ValueSource::CommandLine => "flag",
            // A switch that the file leaves off is off as it would be without.
            _ if of_file.iter().any(|set| set == name) => "file",
            _ => "default",
        };
        Some((name.to_owned(), Effective { value, source }))
    });
    all.collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn command() -> Command {
        let option = |name: &'static str| Arg::new(name).long(name);
        let controller = Command::new("controller")
            .arg(option("strict").action(ArgAction::SetTrue))
            .arg(option("elect").default_value("true").value_parser(clap::value_parser!(bool)))
            .arg(option("executors").default_value("64").value_parser(clap::value_parser!(u16)))
            .arg(option("address").default_value(":8080").env("PVBIND_TEST_ADDRESS_THAT_NOBODY_SETS"))
            .arg(option("then").action(ArgAction::Append));
        Command::new("pvbind")
            .subcommand(controller)
            .arg(option("config").global(true).value_parser(clap::value_parser!(PathBuf)))
    }

    /// What becomes of a file beside these arguments; the name of the file is left out of what is said.
    fn outcome(text: &str, more: &[&str]) -> Result<BTreeMap<String, (String, &'static str)>, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.yaml");
        std::fs::write(&file, text).unwrap();
        let file = file.to_str().unwrap();
        let first = ["pvbind", "controller", "--config", file];
        let line = first.iter().chain(more).map(OsString::from);
        match read(&command(), line) {
            Ok((_, all)) => Ok(all.into_iter().map(|(name, is)| (name, (is.value, is.source))).collect()),
            Err(error) => Err(error.to_string().replace(file, "FILE")),
        }
    }

    #[test]
    fn flags_come_before_the_file_and_the_file_before_what_is_built_in() {
        let text = "strict: true\nexecutors: 8\naddress: off-by-file\nthen: [a, b]\n";
        let all = outcome(text, &["--executors", "9"]).unwrap();
        let is = |name: &str| (all[name].0.as_str(), all[name].1);
        assert_eq!(is("strict"), ("true", "file"));
        assert_eq!(is("executors"), ("9", "flag"));
        assert_eq!(is("address"), ("off-by-file", "file"));
        assert_eq!(is("then"), ("a,b", "file"));
        assert_eq!(is("elect"), ("true", "default"));
    }

    #[rstest]
    #[case("")]
    #[case("# nothing yet\n")]
    #[case("strict: false\n")]
    fn a_file_may_say_nothing(#[case] text: &str) {
        assert_eq!(outcome(text, &[]).unwrap()["executors"], ("64".to_owned(), "default"));
    }

    #[rstest]
    #[case("a: 1\n", "FILE, line 1: a: pvbind controller has no such option")]
    #[case("x: {}\nexecutor: 1\n", "FILE, line 1: x: pvbind controller has no such option")]
    #[case(
        "strict: true\nexecutor: 1\n",
        "FILE, line 2: executor: pvbind controller has no such option; executors was probably meant"
    )]
    #[case("config: a\n", "FILE, line 1: config: pvbind controller has no such option")]
    #[case("executors: \"8\"\n", "FILE, line 1: executors: is \"8\"; write a number, without quotes")]
    #[case("executors: many\n", "FILE, line 1: executors: is \"many\"; write a number, without quotes")]
    #[case("strict: 1\n", "FILE, line 1: strict: is 1; write true or false")]
    #[case("elect: \"true\"\n", "FILE, line 1: elect: is \"true\"; write true or false")]
    #[case(
        "address: 8080\n",
        "FILE, line 1: address: is 8080; write a string; numbers and true or false need quotes"
    )]
    #[case(
        "address:\n",
        "FILE, line 1: address: is null; write a string; numbers and true or false need quotes"
    )]
    #[case(
        "\nexecutors: 70000\n",
        "FILE, line 2: executors: invalid value '70000' for '--executors <executors>': 70000 is not in 0..=65535"
    )]
    #[case("- a\n", "FILE, document 1, line 1: is no mapping of options to values, such as executors: 64")]
    #[case(
        "strict: true\n---\nstrict: true\n",
        "FILE, document 2, line 3: is a second document; one file has one mapping"
    )]
    fn what_is_wrong_with_a_file_is_said_with_its_line(#[case] text: &str, #[case] said: &str) {
        assert_eq!(outcome(text, &[]).unwrap_err(), said);
    }

    #[test]
    fn a_file_that_is_not_there_is_said_to_be_missing() {
        let line = ["pvbind", "controller", "--config", "/no/such/file"].map(OsString::from);
        let error = read(&command(), line).unwrap_err().to_string();
        assert!(error.contains("/no/such/file"), "{error}");
    }
}
