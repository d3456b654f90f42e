//! Decides what rules may do with times and durations. Answers to `cel-go/common/types/{duration,timestamp}.go`.

use std::cmp::Ordering;

use cel::common::types::{CelInt, CelString, Type};
use cel::common::value::Val;
use cel::{DeclarationError, Env};
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use super::{Kind, Opaque, Result, failed, text};

static DURATION: Type = Type::new_unspecified_type("google.protobuf.Duration");
static TIMESTAMP: Type = Type::new_unspecified_type("google.protobuf.Timestamp");

pub(super) type Length = Opaque<SignedDuration>;
pub(super) type Moment = Opaque<Timestamp>;

impl Kind for SignedDuration {
    fn kind() -> &'static Type {
        &DURATION
    }

    fn order(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }

    fn plus(&self, other: &dyn Val) -> Option<Box<dyn Val>> {
        if let Some(moment) = other.downcast_ref::<Moment>() {
            return Some(boxed(moment.0.checked_add(*self).ok()?));
        }
        Some(boxed(self.checked_add(other.downcast_ref::<Length>()?.0)?))
    }

    fn minus(&self, other: &dyn Val) -> Option<Box<dyn Val>> {
        Some(boxed(self.checked_sub(other.downcast_ref::<Length>()?.0)?))
    }
}

impl Kind for Timestamp {
    fn kind() -> &'static Type {
        &TIMESTAMP
    }

    fn order(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }

    fn plus(&self, other: &dyn Val) -> Option<Box<dyn Val>> {
        Some(boxed(self.checked_add(other.downcast_ref::<Length>()?.0).ok()?))
    }

    fn minus(&self, other: &dyn Val) -> Option<Box<dyn Val>> {
        if let Some(moment) = other.downcast_ref::<Moment>() {
            return Some(boxed(self.duration_since(moment.0)));
        }
        Some(boxed(self.checked_sub(other.downcast_ref::<Length>()?.0).ok()?))
    }
}

fn boxed<T: Kind>(value: T) -> Box<dyn Val> {
    Box::new(Opaque(value))
}

pub(super) fn declare(env: &mut Env) -> std::result::Result<(), DeclarationError> {
    env.add_type(DURATION.to_owned())?;
    env.add_type(TIMESTAMP.to_owned())?;
    cel::add_overload!(env, fn read_duration: (CelString) -> Result<Length>, name = "duration")?;
    cel::add_overload!(env, fn same_duration: (Length) -> Length, name = "duration")?;
    cel::add_overload!(env, fn read_timestamp: (CelString) -> Result<Moment>, name = "timestamp")?;
    cel::add_overload!(env, fn same_timestamp: (Moment) -> Moment, name = "timestamp")?;
    cel::add_overload!(env, fn from_seconds: (CelInt) -> Result<Moment>, name = "timestamp")?;
    cel::add_overload!(env, fn seconds_of: (Moment) -> CelInt, name = "int")?;
    cel::add_overload!(env, fn show_duration: (Length) -> CelString, name = "string")?;
    cel::add_overload!(env, fn show_timestamp: (Moment) -> CelString, name = "string")?;
    cel::add_member_overload!(env, fn hours: (Length) -> CelInt, name = "getHours")?;
    cel::add_member_overload!(env, fn minutes: (Length) -> CelInt, name = "getMinutes")?;
    cel::add_member_overload!(env, fn seconds: (Length) -> CelInt, name = "getSeconds")?;
    cel::add_member_overload!(env, fn millis: (Length) -> CelInt, name = "getMilliseconds")?;
    macro_rules! parts {
        ($($name:literal: $utc:ident $zoned:ident = $part:expr;)*) => {$(
            fn $utc(moment: &Moment) -> CelInt {
                let part: fn(DateTime) -> i64 = $part;
                part(TimeZone::UTC.to_datetime(moment.0)).into()
            }
            fn $zoned(moment: &Moment, zone: &CelString<'_>) -> Result<CelInt> {
                let part: fn(DateTime) -> i64 = $part;
                Ok(part(zone_of(zone.inner())?.to_datetime(moment.0)).into())
            }
            cel::add_member_overload!(env, fn $utc: (Moment) -> CelInt, name = $name)?;
            cel::add_member_overload!(env, fn $zoned: (Moment, CelString) -> Result<CelInt>, name = $name)?;
        )*};
    }
    parts! {
        "getFullYear": year year_in = |time| time.year().into();
        "getMonth": month month_in = |time| i64::from(time.month()) - 1;
        "getDate": date date_in = |time| time.day().into();
        "getDayOfMonth": day day_in = |time| i64::from(time.day()) - 1;
        "getDayOfWeek": weekday weekday_in = |time| time.weekday().to_sunday_zero_offset().into();
        "getDayOfYear": yearday yearday_in = |time| i64::from(time.day_of_year()) - 1;
        "getHours": hour hour_in = |time| time.hour().into();
        "getMinutes": minute minute_in = |time| time.minute().into();
        "getSeconds": second second_in = |time| time.second().into();
        "getMilliseconds": milli milli_in = |time| time.millisecond().into();
    }
    Ok(())
}

/// A zone by its name, or by how far it is from UTC: `-02:00`.
fn zone_of(name: &str) -> Result<TimeZone> {
    let apart = name.split_once(':').and_then(|(hours, minutes)| {
        let sign = if hours.starts_with('-') { -1 } else { 1 };
        let hours: i32 = hours.trim_start_matches(['-', '+']).parse().ok()?;
        let minutes: i32 = minutes.parse().ok()?;
        let seconds = hours.checked_mul(3600)?.checked_add(minutes.checked_mul(60)?)?;
        Offset::from_seconds(sign * seconds).ok().map(TimeZone::fixed)
    });
    apart.map_or_else(|| TimeZone::get(name).map_err(|_| failed(format!("unknown time zone {name}"))), Ok)
}

/// A length of time as Go reads one: `1h30m`, `-1.5s`.
pub(in crate::crds) fn duration(raw: &str) -> Option<Length> {
    let (negative, mut rest) = match raw.as_bytes() {
        [b'-', ..] => (true, &raw[1..]),
        [b'+', ..] => (false, &raw[1..]),
        _ => (false, raw),
    };
    if rest == "0" {
        return Some(Opaque(SignedDuration::ZERO));
    }
    let mut nanos: Option<i128> = None;
    while !rest.is_empty() {
        let (number, after) =
            rest.split_at(rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?);
        let end = after.find(|letter: char| letter.is_ascii_digit() || letter == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        nanos = Some(nanos.unwrap_or(0).checked_add(nanos_of(number, unit)?)?);
        rest = after;
    }
    let nanos = i64::try_from(nanos?).ok()?;
    Some(Opaque(SignedDuration::from_nanos(if negative { -nanos } else { nanos })))
}

/// A number of a unit.
fn nanos_of(number: &str, unit: &str) -> Option<i128> {
    let unit: i128 = match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() + fraction.len() == 0 {
        return None;
    }
    let digits = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<i128>().ok() };
    // What is smaller than a billionth of a billionth is nothing of any unit.
    let fraction = fraction.get(..fraction.len().min(15))?;
    let scale = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
    digits(whole)?.checked_mul(unit)?.checked_add(digits(fraction)? * unit / scale)
}

/// A time as RFC 3339 has it; a date is its beginning.
pub(in crate::crds) fn timestamp(raw: &str) -> Option<Moment> {
    if let Ok(date) = raw.parse::<jiff::civil::Date>()
        && raw.len() == 10
    {
        let midnight = date.to_datetime(jiff::civil::Time::midnight());
        return TimeZone::UTC.to_timestamp(midnight).map(Opaque).ok();
    }
    raw.parse().map(Opaque).ok()
}

fn read_duration(raw: &CelString<'_>) -> Result<Length> {
    duration(raw.inner())
        .ok_or_else(|| failed("type conversion error from 'string' to 'google.protobuf.Duration'"))
}

fn same_duration(length: &Length) -> Length {
    length.clone()
}

fn read_timestamp(raw: &CelString<'_>) -> Result<Moment> {
    timestamp(raw.inner())
        .ok_or_else(|| failed("type conversion error from 'string' to 'google.protobuf.Timestamp'"))
}

fn same_timestamp(moment: &Moment) -> Moment {
    moment.clone()
}

fn from_seconds(seconds: &CelInt) -> Result<Moment> {
    Timestamp::from_second(*seconds.inner()).map(Opaque).map_err(|_| failed("timestamp overflow"))
}

fn seconds_of(moment: &Moment) -> CelInt {
    moment.0.as_second().into()
}

fn show_duration(length: &Length) -> CelString<'static> {
    let nanos = length.0.as_nanos();
    let (sign, nanos) = if nanos < 0 { ("-", -nanos) } else { ("", nanos) };
    let fraction = format!("{:09}", nanos % 1_000_000_000);
    let fraction = fraction.trim_end_matches('0');
    let dot = if fraction.is_empty() { "" } else { "." };
    text(format!("{sign}{}{dot}{fraction}s", nanos / 1_000_000_000))
}

fn show_timestamp(moment: &Moment) -> CelString<'static> {
    text(moment.0.to_string())
}

fn hours(length: &Length) -> CelInt {
    (length.0.as_secs() / 3600).into()
}

fn minutes(length: &Length) -> CelInt {
    (length.0.as_secs() / 60).into()
}

fn seconds(length: &Length) -> CelInt {
    length.0.as_secs().into()
}

fn millis(length: &Length) -> CelInt {
    i64::try_from(length.0.as_millis()).unwrap_or(i64::MAX).into()
}
